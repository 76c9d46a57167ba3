package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

type jobAnswer struct {
	stamp
	queue.JobView
	Version int               `json:"version"`
	Labels  map[string]string `json:"labels,omitempty"`
	Params  map[string]any    `json:"params,omitempty"`
	Group   uint64            `json:"group,omitempty"`
	Command string            `json:"command"`
	Spec    job.Spec          `json:"spec"`
	Past    []job.Attempt     `json:"past,omitempty"` // attempts, the one that runs last
	Result  *job.Result       `json:"result,omitempty"`
	Tally   *tally            `json:"tally,omitempty"` // of a group
	Grid    []task            `json:"grid,omitempty"`  // of a group: tasks that have a record
	Events  []queue.Event     `json:"events"`
}

func (s *Server) job(r *http.Request) (any, error) {
	id, err := ref(r)
	if err != nil {
		return nil, err
	}
	v, err := s.o.Queue.Show(r.Context(), id)
	if err != nil {
		return nil, err
	}
	v = s.hub.index.byOurClock(v)
	v.Progress = s.hub.progress(v)
	a := jobAnswer{stamp: s.stamp(), JobView: v, Version: 1, Events: s.hub.eventsOf(id.Number, 50)}
	if v.Job != nil {
		a.Labels, a.Spec, a.Command = v.Job.Spec.Labels, masked(v.Job.Spec), v.Job.Spec.CommandLine()
		if id.Task {
			a.Group, a.Params = id.Number, queue.TaskParams(v.Job, id.Index)
		}
	}
	if v.Record != nil {
		a.Past, a.Result = s.hub.index.attemptsByOurClock(v.Record.Attempts), v.Record.Result
	}
	if v.Tasks != nil {
		a.Tally, a.Grid = s.hub.index.group(id.Number)
	}
	return a, nil
}

var secretName = regexp.MustCompile(`(?i)token|secret|passw|credential|api_?key|private`)

// masked is the spec without the values of variables that sound like secrets.
func masked(spec job.Spec) job.Spec {
	hidden := "(hidden)"
	env := make(map[string]*string, len(spec.Env))
	for k, v := range spec.Env {
		if v != nil && secretName.MatchString(k) {
			v = &hidden
		}
		env[k] = v
	}
	spec.Env = env
	return spec
}

// taskLine is one task in a sweep's table.
type taskLine struct {
	queue.JobView
	Typed  string          `json:"id"` // what people type: number.index
	Params map[string]any  `json:"params,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
}

func (s *Server) jobTasks(r *http.Request) (any, error) {
	id, err := ref(r)
	if err != nil {
		return nil, err
	}
	from, err := number(r.URL.Query().Get("from"), 0, 1<<31)
	if err != nil {
		return nil, err
	}
	views, next, err := s.o.Queue.ListTasks(r.Context(), id.Number, from, 256)
	if err != nil {
		return nil, err
	}
	lines := make([]taskLine, 0, len(views))
	for _, v := range views {
		l := taskLine{JobView: s.hub.index.byOurClock(v), Typed: v.Ref.String(), Params: queue.TaskParams(v.Job, v.Ref.Index)}
		if v.Record != nil && v.Record.Result != nil {
			l.Output = v.Record.Result.Output
		}
		lines = append(lines, l)
	}
	return tasksAnswer{s.stamp(), lines, next}, nil
}

func (s *Server) series(r *http.Request) (any, error) {
	id, err := ref(r)
	if err != nil {
		return nil, err
	}
	v, err := s.o.Queue.Show(r.Context(), id)
	if err != nil {
		return nil, err
	}
	attempt, err := number(r.URL.Query().Get("attempt"), max(1, v.Attempts), 1<<20)
	if err != nil {
		return nil, err
	}
	var points telemetry.Series
	if err := s.o.Queue.Series(r.Context(), v.Project, id, attempt, &points); err != nil && !errors.Is(err, queue.ErrNotFound) {
		return nil, err // nothing measured, or nothing yet, is no failure: the series has no GPUs then
	}
	if points.GPUs == nil {
		points.GPUs = map[string]telemetry.GPUSeries{}
	}
	if !points.StartedAt.IsZero() {
		points.StartedAt = points.StartedAt.Add(-s.hub.index.aheadOf(v.Machine))
	}
	return seriesAnswer{s.stamp(), attempt, points}, nil
}

func (s *Server) explain(r *http.Request) (any, error) {
	id, err := ref(r)
	if err != nil {
		return nil, err
	}
	if s.o.Explain == nil {
		return nil, refuse(http.StatusNotFound, "this dashboard explains nothing")
	}
	return s.o.Explain(r.Context(), id)
}
