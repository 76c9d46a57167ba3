package queue

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// An array is one message; its tasks come to the lanes by the window, each runs once, and the group ends with one
// result.
func TestArrayFromOneMessage(t *testing.T) {
	t.Parallel()
	runArray(t, 2000, 8)
}

func TestArrayOfAHundredThousand(t *testing.T) {
	t.Parallel()
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("100,000 tasks; set BERTH_LONG=1 (make test-all)")
	}
	runArray(t, 100_000, 8)
}

func runArray(t *testing.T, count, workers int) {
	b := setup(t, quick())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: fmt.Sprint("1-", count), Count: count}
	begin := time.Now()
	ref := b.submit(array)
	accepted := time.Since(begin)
	if state, err := b.q.streamState(b.ctx, StreamJobs, ""); err != nil || state.Msgs != 1 {
		t.Fatalf("%d messages for one array (%v)", state.Msgs, err)
	}
	b.background(b.q.RunClerk)
	eventually(t, "the first window is there", func() bool { return b.onLanes() == b.q.opts.Window })

	var most atomic.Int64
	watch := b.background(func(ctx context.Context) error {
		for sleep(ctx, 20*time.Millisecond) == nil {
			n, err := b.q.countSubjects(ctx, StreamLanes, prefixLanes+">")
			if err == nil {
				most.Store(max(most.Load(), int64(n)))
			}
		}
		return nil
	})
	q := b.open()
	for range workers {
		b.background(b.machineOn(q, "m").workOff)
	}
	r, err := b.q.WaitResult(b.ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	watch()
	t.Logf("%d tasks: accepted in %s, through in %s; at most %d messages on lanes at once (the window is %d, %d workers)",
		count, accepted.Round(time.Millisecond), time.Since(begin).Round(time.Second), most.Load(), b.q.opts.Window, workers)
	if r.State != job.Succeeded {
		t.Errorf("the group ended %s: %s", r.State, r.Reason)
	}
	// A task that has ended counts as through a moment before its message is off the lane.
	if n := most.Load(); n > int64(b.q.opts.Window+workers) {
		t.Errorf("%d messages were on lanes at once, the window is %d", n, b.q.opts.Window)
	}
	ended, err := b.q.countTasks(b.ctx, "lab", ref.Number)
	if err != nil || ended != count {
		t.Errorf("%d tasks have results (%v)", ended, err)
	}
	if state, err := b.q.streamState(b.ctx, StreamRuns, ""); err != nil || state.Msgs != uint64(count) {
		t.Errorf("%d runs of %d tasks (%v)", state.Msgs, count, err)
	}
	view, err := b.q.Show(b.ctx, ref)
	if err != nil || view.Tasks == nil || view.Tasks.States[job.Succeeded] != count {
		t.Errorf("show: %+v, %v", view.Tasks, err)
	}
}

// max_concurrent tasks are under way at most, without anybody counting but the clerk.
func TestGroupThrottle(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	array := newJob("throttled")
	array.Tasks = &job.Tasks{Indexes: "1-12", Count: 12, MaxConcurrent: 2}
	ref := b.submit(array)
	var mu sync.Mutex
	now, most := 0, 0
	q := b.open()
	for range 5 {
		m := b.machineOn(q, "m")
		b.background(func(ctx context.Context) error {
			for {
				d, err := m.tryNextIn(ctx)
				if err != nil {
					return err
				}
				c, err := d.Claim(ctx, nil)
				if err != nil {
					return err
				}
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				if err := sleep(ctx, 20*time.Millisecond); err != nil { // the run
					return err
				}
				mu.Lock()
				now--
				mu.Unlock()
				if err := c.Finish(b.ctx, succeeded); err != nil {
					return err
				}
			}
		})
	}
	if r := b.wait(ref); r.State != job.Succeeded {
		t.Errorf("it ended %s: %s", r.State, r.Reason)
	}
	mu.Lock()
	defer mu.Unlock()
	if most != 2 {
		t.Errorf("%d tasks ran at once, want 2", most)
	}
}

// A failed task fails the group, tasks carry their own parameters and requirements, and the list shows them.
func TestGroupOfDifferentTasks(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	matrix := newJob("matrix")
	matrix.Tasks = &job.Tasks{
		Indexes: "0-2", Count: 3, Params: []map[string]any{{"tp": 1.0}, {"tp": 2.0}, {"tp": 4.0}},
		Requirements: []job.Requirements{{GPUs: 1}, {GPUs: 2}, {GPUs: 4}},
	}
	ref := b.submit(matrix)
	m := b.machine("m1")
	for range 3 {
		d := m.next()
		if want := 1 << *d.Index; d.Requirements.GPUs != want || TaskParams(&d.Job, *d.Index)["tp"] != float64(want) {
			t.Errorf("task %s: %d GPUs, params %v", d.Ref(), d.Requirements.GPUs, TaskParams(&d.Job, *d.Index))
		}
		c, err := d.Claim(b.ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		result := succeeded
		if *d.Index == 1 {
			result = job.Result{Outcome: job.OutcomeFailed, Exit: &job.Exit{Code: 3}}
		}
		if err := c.Finish(b.ctx, result); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.wait(ref); r.State != job.Failed || r.Reason != "2 succeeded, 1 failed" {
		t.Errorf("the group: %s, %q", r.State, r.Reason)
	}
	views, next, err := b.q.ListTasks(b.ctx, ref.Number, 1, 1)
	if err != nil || next != 2 || len(views) != 1 || views[0].State != job.Failed || views[0].Exit.Code != 3 {
		t.Errorf("tasks: %+v, next %d, %v", views, next, err)
	}
	if r, err := b.q.Result(b.ctx, "lab", TaskRef(ref.Number, 2)); err != nil || r.Params["tp"] != 4.0 || r.Group != ref.Number {
		t.Errorf("result of task 2: %+v, %v", r, err)
	}
}

// When the clerk that keeps a group goes, another one keeps it, from the cursor on.
func TestGroupOutlivesItsClerk(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.Window = 8
	b := setup(t, opts)
	stop := b.background(b.q.RunClerk)
	array := newJob("long")
	array.Tasks = &job.Tasks{Indexes: "0-39", Count: 40}
	ref := b.submit(array)
	eventually(t, "the first window is there", func() bool { return b.onLanes() == 8 })
	stop()
	second := b.open()
	b.background(second.RunClerk)
	b.background(b.machine("m1").workOff)
	if r := b.wait(ref); r.State != job.Succeeded || r.Reason != "40 succeeded" {
		t.Errorf("the group: %s, %q", r.State, r.Reason)
	}
}
