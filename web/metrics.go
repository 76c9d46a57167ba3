package web

import (
	"net/http"
	"slices"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/queue"
)

// Metrics shows all jobs and machines to Prometheus. On the dashboard's own address it is behind the token, as every page
// is; a caller may serve it elsewhere.
func (s *Server) Metrics() http.Handler { return s.hub.metrics.Handler() }

func (h *hub) newMetrics() *metrics.Registry {
	return metrics.NewFleet(metrics.Sources{
		Lanes: h.q, Machines: h.measuredFleet, Waiting: h.index.waiting, Logger: h.log, Now: h.now,
	})
}

func (h *hub) measuredFleet() []metrics.Machine {
	fleet := h.fleet()
	all := make([]metrics.Machine, len(fleet))
	for i, m := range fleet {
		all[i].Machine = m
	}
	return all
}

// count notes that a job started or ended. What had done so before this process looked is not counted, and what is told
// again after the broker was away has its state already.
func (h *hub) count(ref queue.Ref, rec *job.Record) {
	if !h.isLoaded() || rec == nil || rec.Group != nil {
		return
	}
	was := h.index.stateOf(ref)
	if rec.State == was {
		return
	}
	ran := rec.State == job.Running || rec.State.Final() && was != job.Running && len(rec.Attempts) > 0 // too short to be seen
	if ran && rec.StartedAt != nil {
		h.metrics.Jobs.Started(rec.Project, rec.StartedAt.Sub(rec.QueuedAt))
	}
	if rec.State.Final() {
		h.metrics.Jobs.Ended(rec.Project, rec.State)
	}
}

// stateOf is the state of a job or task as it was last told.
func (x *index) stateOf(ref queue.Ref) job.State {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if ref.Task {
		return x.tasks[ref.Number][ref.Index].State
	}
	if r := x.by[ref.Number]; r != nil {
		return r.State
	}
	if rec := x.early[ref]; rec != nil {
		return rec.State
	}
	return ""
}

// notYet are the reasons of jobs whose time has not come: nobody is to blame that they wait.
var notYet = []string{"BeginTime", "Dependency", "Backoff", "Held"}

// waiting is how much waits, and since when, by band and project.
func (x *index) waiting() map[metrics.Waiting]metrics.Oldest {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := map[metrics.Waiting]metrics.Oldest{}
	for _, r := range x.rows {
		n := r.waiting()
		if n == 0 {
			continue
		}
		at := metrics.Waiting{Band: job.BandOf(r.Priority), Project: r.Project}
		o := all[at]
		o.Jobs += n
		if r.State == job.Queued && !slices.Contains(notYet, r.Reason) && (o.Since.IsZero() || r.QueuedAt.Before(o.Since)) {
			o.Since = r.QueuedAt
		}
		all[at] = o
	}
	return all
}

// waiting is how many runs of a job or group have not begun.
func (r *row) waiting() int {
	switch {
	case r.State.Final() || r.State == job.Running:
		return 0
	case r.Tasks == nil:
		return 1
	}
	return max(r.Tasks.Count-r.Tasks.Ended-r.Tasks.States[job.Running], 0)
}
