package worker

import (
	"context"
	"time"
)

const (
	// seriesEvery is how often the charts of a running job get a new version.
	seriesEvery = 30 * time.Second
	// fleetEvery is the step of a machine's own history.
	fleetEvery = time.Minute
)

// publishSeries stores the attempt's chart points, the last version counts. A failure costs a chart, not the job.
func (w *Worker) publishSeries(a *attempt) {
	if a.meter == nil {
		return
	}
	if t := a.claim.Job.Spec.Telemetry; t != nil && t.Series == "none" {
		return
	}
	ctx, cancel := context.WithTimeout(w.background, 3*time.Second)
	defer cancel()
	if err := w.cfg.Queue.PublishSeries(ctx, a.project, a.claim.Ref(), a.claim.Attempt(), a.meter.Series()); err != nil {
		a.log.Debug("series_not_stored", "err", err)
	}
}

// fleetPoint is one minute of a machine.
type fleetPoint struct {
	Version int                 `json:"version"`
	At      time.Time           `json:"at"`
	Machine string              `json:"machine"`
	GPUs    map[string]fleetGPU `json:"gpus"` // by UUID
	Running []string            `json:"running,omitempty"`
}

type fleetGPU struct {
	Index              int      `json:"index"`
	State              string   `json:"state"`
	Why                string   `json:"why,omitempty"`
	UtilizationPercent *float64 `json:"utilization_percent,omitempty"`
	MemoryUsedMB       *int64   `json:"memory_used_mb,omitempty"`
	TemperatureC       *float64 `json:"temperature_c,omitempty"`
	PowerW             *float64 `json:"power_w,omitempty"`
	Jobs               []string `json:"jobs,omitempty"`
}

// keepHistory stores a point of this machine each minute and when a GPU changes its health, until ctx ends.
func (w *Worker) keepHistory(ctx context.Context) {
	tick := time.NewTicker(fleetEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.healthNews:
		}
		store, cancel := context.WithTimeout(ctx, 10*time.Second)
		if err := w.cfg.Queue.PublishFleet(store, w.cfg.Machine, w.fleetPoint()); err != nil && ctx.Err() == nil {
			w.log.Debug("history_not_stored", "err", err)
		}
		cancel()
	}
}

func (w *Worker) fleetPoint() fleetPoint {
	m := w.machine()
	snap, _ := w.sampler.Latest()
	p := fleetPoint{Version: 1, At: m.At, Machine: m.Name, GPUs: map[string]fleetGPU{}, Running: m.Running}
	for _, g := range m.GPUs {
		r, _ := snap.Reading(g.UUID)
		p.GPUs[g.UUID] = fleetGPU{
			Index: g.Index, State: g.State, Why: g.Why, UtilizationPercent: r.UtilizationPercent,
			MemoryUsedMB: r.MemoryUsedMB, TemperatureC: r.TemperatureC, PowerW: r.PowerW, Jobs: g.Jobs,
		}
	}
	return p
}

// healthChanged asks for a point of history now, and tells the fleet soon.
func (w *Worker) healthChanged() {
	select {
	case w.healthNews <- struct{}{}:
	default:
	}
	w.tell()
}
