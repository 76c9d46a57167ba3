package worker

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/worker"
)

// measured is a worker as its metrics show it.
type measured struct {
	registry *metrics.Registry
	house    atomic.Pointer[worker.Worker] // nil until it is ready
}

func newMeasured(q *queue.Queue, now func() time.Time, log *slog.Logger) *measured {
	m := &measured{}
	m.registry = metrics.NewWorker(metrics.Sources{Lanes: q, LaneRuns: m.laneRuns, Machines: m.machines, Logger: log, Now: now})
	return m
}

// machines is this one, once it is ready.
func (m *measured) machines() []metrics.Machine {
	house := m.house.Load()
	if house == nil {
		return nil
	}
	own, snap := house.Machine()
	return []metrics.Machine{{Machine: own, Readings: readings(snap)}}
}

func (m *measured) laneRuns() map[job.Lane]int {
	house := m.house.Load()
	if house == nil {
		return nil
	}
	return house.LaneRuns()
}

// readings is what the GPUs show beyond what the fleet is told. A snapshot that is too old to be trusted shows nothing.
func readings(snap telemetry.Snapshot) map[string]metrics.Reading {
	if snap.Health == telemetry.HealthUnreadable {
		return nil
	}
	all := map[string]metrics.Reading{}
	for _, r := range snap.Readings {
		one := metrics.Reading{EnergyJoules: r.EnergyJoules, ECCUncorrected: r.ECCUncorrected}
		if r.ECCUncorrected != nil { // the two come with ECC memory
			one.RemapPending, one.RemapFailed = &r.RemapPending, &r.RemapFailed
		}
		all[r.UUID] = one
	}
	return all
}

// serve shows the metrics at an address until the returned function is called. "" is nowhere.
func (m *measured) serve(addr string, beside metrics.Pages, log *slog.Logger) (end func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	pages := metrics.Pages{metrics.Path: m.registry.Handler()}
	maps.Copy(pages, beside)
	return ServeMetrics(addr, pages, log)
}

// ServeMetrics shows pages of metrics at an address until the returned function is called.
func ServeMetrics(addr string, pages metrics.Pages, log *slog.Logger) (end func(), err error) {
	ctx, stop := context.WithCancel(context.Background()) // it ends after the worker, by end
	l, err := metrics.Listen(ctx, addr)
	if err != nil {
		stop()
		return nil, err
	}
	log.Info("metrics", "address", l.Addr().String())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := metrics.Serve(ctx, l, pages, log); err != nil {
			log.Error("metrics_ended", "err", err)
		}
	})
	return func() { stop(); wg.Wait() }, nil
}
