package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// manyLanes is 30 projects with 50 shapes each.
const (
	laneProjects = 30
	laneShapes   = 50
	laneFleet    = 50
)

// lanesFigures is what 1,500 lanes cost.
type lanesFigures struct {
	rss, busy, start float64 // MiB, percent of a core, ms of the slowest first job
}

// A fleet of 50 machines on 1,500 lanes, each of which has just had a job and is empty now: what the broker needs for
// that, and how long the next job of one of them waits.
func manyLanes(tb testing.TB, projects, shapes, machines int, watch time.Duration) lanesFigures {
	tb.Helper()
	broker := startBroker(tb, 2*time.Minute)
	took := make(chan queue.Ref, projects*shapes)
	startFleet(tb, broker.Connect, machines, 5, func(r queue.Ref) { took <- r })
	q, err := queue.OpenClient(tb.Context(), broker.Connect(), queue.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(q.Close)
	laneJob := func(i int) job.Job {
		return job.Job{
			Project: fmt.Sprint("p", i/shapes), User: "bench", Spec: job.Spec{Command: trivial, Workdir: "/"},
			Requirements: job.Requirements{GPUs: 1 + i%shapes%8, GPUMemoryMB: 2048 * int64(1+i%shapes/8)},
		}
	}
	lanes := projects * shapes
	err = inParallel(submitters, lanes, func(i int) error {
		_, err := q.Submit(context.Background(), laneJob(i))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	for range lanes {
		receive(tb, took)
	}
	var f lanesFigures
	f.busy, f.rss = broker.busy(watch), broker.rss()
	for i := range 20 {
		began := time.Now()
		if _, err := q.Submit(tb.Context(), laneJob(i*lanes/20)); err != nil {
			tb.Fatal(err)
		}
		receive(tb, took)
		f.start = max(f.start, 1000*time.Since(began).Seconds())
	}
	return f
}

func receive(tb testing.TB, took <-chan queue.Ref) {
	tb.Helper()
	select {
	case <-took:
	case <-time.After(2 * time.Minute):
		tb.Fatal("a job did not start within two minutes")
	}
}

func BenchmarkManyLanes(b *testing.B) {
	for b.Loop() {
		f := manyLanes(b, laneProjects, laneShapes, laneFleet, window)
		target(b, f.rss, "broker-rss-MiB", "at most", 150)
		target(b, f.busy, "broker-idle-%core", "at most", 10)
		target(b, f.start, "slowest-start-ms", "at most", 1000)
	}
}

// The same as a test: in full when asked to, otherwise so small that it only shows that the path works.
func TestManyLanes(t *testing.T) {
	if os.Getenv("BERTH_LONG") == "" {
		t.Parallel()
		f := manyLanes(t, 3, 40, 3, 100*time.Millisecond) // more lanes than a machine has waiting pulls
		t.Logf("%+v", f)
		return
	}
	f := manyLanes(t, laneProjects, laneShapes, laneFleet, window)
	t.Logf("%d lanes, %d machines: broker %.0f MiB, %.1f %% of a core, slowest start %.0f ms", laneProjects*laneShapes, laneFleet, f.rss, f.busy, f.start)
	if f.rss > 150 {
		t.Errorf("the broker needs %.0f MiB, want at most 150", f.rss)
	}
}
