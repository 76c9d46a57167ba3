package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// The fleet on which dispatch is measured: each machine has one GPU and stands at each lane with a waiting pull.
const (
	fleetMachines = 50
	fleetShapes   = 10
)

// fleetLines are what makes four lanes of a shape: two projects, two bands.
var fleetLines = []struct {
	project  string
	priority int
}{{"bench", 90}, {"bench", 10}, {"other", 90}, {"other", 10}}

// newFleet starts the machines and gives each of the lanes a job, so that all stand at all lanes.
func newFleet(tb testing.TB, b connector, machines, shapes int) (*berth, []job.Job) {
	tb.Helper()
	stations := make([]station, machines)
	for i := range stations {
		stations[i] = station{machine: fmt.Sprint("bench", i), gpus: "1x24Gi", slots: 4}
	}
	h := newBerthOn(tb, b, job.Requirements{}, stations...)
	var lanes []job.Job
	distinct := map[job.Lane]bool{}
	for _, line := range fleetLines {
		for s := range shapes {
			j := h.job()
			j.Project, j.Spec.Priority = line.project, &line.priority
			j.Requirements = job.Requirements{GPUs: 1, GPUMemoryMB: 2048 * int64(1+s)}
			distinct[queue.LaneOf(j.Project, j.Requirements, line.priority)] = true
			lanes = append(lanes, j)
			if _, err := h.queue.Submit(tb.Context(), j); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if len(distinct) != len(lanes) {
		tb.Fatalf("%d lanes, want %d", len(distinct), len(lanes))
	}
	for range lanes {
		if r := h.result(tb.Context()); r.State != job.Succeeded {
			tb.Fatalf("job %d: %s: %s", r.Number, r.State, r.Reason)
		}
	}
	return h, lanes
}

// fleetDispatches are dispatches on random lanes, each after a bare one.
func fleetDispatches(tb testing.TB, plain *bareFleet, h *berth, lanes []job.Job, machines, n int) (without, with []time.Duration) {
	tb.Helper()
	for i := range n + warmUp {
		h.stands(tb.Context(), len(lanes), machines)
		a := plain.dispatch(tb.Context())
		h.stands(tb.Context(), len(lanes), machines)
		b := h.send(tb.Context(), lanes[rand.IntN(len(lanes))])
		if i >= warmUp {
			without, with = append(without, a), append(with, b)
		}
	}
	return without, with
}

// From before the submit to the exec on an idle fleet, at most twice a bare prioritized pull of as many machines and a
// shimmed exec, and five times in the worst of a hundred.
func BenchmarkFleetDispatch(b *testing.B) {
	for _, s := range syncs {
		b.Run(s.name, func(b *testing.B) {
			broker := broker(b, s.interval)
			plain := newBareFleet(b, broker.Connect, fleetMachines)
			house, lanes := newFleet(b, broker, fleetMachines, fleetShapes)
			var without, with []time.Duration
			for b.Loop() {
				x, y := fleetDispatches(b, plain, house, lanes, fleetMachines, pairs)
				without, with = append(without, x...), append(with, y...)
			}
			b.ReportMetric(quantile(without, 0.5), "bare-p50-ms")
			b.ReportMetric(quantile(with, 0.5), "berth-p50-ms")
			b.ReportMetric(quantile(without, 0.99), "bare-p99-ms")
			b.ReportMetric(quantile(with, 0.99), "berth-p99-ms")
			target(b, quantile(with, 0.5)/quantile(without, 0.5), "p50-ratio", "at most", 2)
			target(b, quantile(with, 0.99)/quantile(without, 0.99), "p99-ratio", "at most", 5)
		})
	}
}

// The same in small, so that the benchmark does not rot.
func TestFleetDispatch(t *testing.T) {
	t.Parallel()
	broker := broker(t, 0)
	plain := newBareFleet(t, broker.Connect, 3)
	house, lanes := newFleet(t, broker, 3, 2)
	without, with := fleetDispatches(t, plain, house, lanes, 3, 2)
	for i := range with {
		if without[i] <= 0 || with[i] <= 0 {
			t.Errorf("dispatched in %v and %v", without[i], with[i])
		}
	}
}
