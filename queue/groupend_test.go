package queue

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// fate runs every job it gets as told by the job's index.
func (m *machine) fate(result func(index int) job.Result) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			d, err := m.tryNextIn(ctx)
			if err != nil {
				return err
			}
			c, err := d.Claim(ctx, nil)
			if isDealtWith(err) {
				continue
			}
			if err != nil {
				return err
			}
			index := 0
			if d.Index != nil {
				index = *d.Index
			}
			if err := c.Finish(m.ctx, result(index)); err != nil {
				return err
			}
		}
	}
}

var failed = job.Result{Outcome: job.OutcomeFailed, Exit: &job.Exit{Code: 1}}

// After max_failures nothing more is started, and the group says why.
func TestMaxFailuresStopsTheRest(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	sweep := newJob("sweep")
	sweep.Spec.Array = "1-60"
	sweep.Spec.Group = &job.Group{MaxConcurrent: 2, MaxFailures: 3}
	sweep.Tasks = &job.Tasks{Indexes: "1-60", Count: 60}
	ref := b.submit(sweep)
	b.background(b.machine("m1").fate(func(index int) job.Result {
		if index%2 == 0 {
			return failed
		}
		return succeeded
	}))
	r := b.wait(ref)
	if r.State != job.Failed || !strings.HasPrefix(r.Reason, "3 of its tasks failed and max_failures is 3: ") &&
		!strings.HasPrefix(r.Reason, "4 of its tasks failed") {
		t.Errorf("the group: %s, %q", r.State, r.Reason)
	}
	ran := b.taskRuns(ref)
	if ran < 5 || ran > 8 { // the third failure is task 6; two may have been under way beside it
		t.Errorf("%d tasks ran", ran)
	}
	if r.Tasks[job.Cancelled] != 60-ran || r.Tasks[job.Failed]+r.Tasks[job.Succeeded] != ran {
		t.Errorf("%d ran, the group counts %v", ran, r.Tasks)
	}
	v, err := b.q.Show(b.ctx, TaskRef(ref.Number, 50))
	if err != nil || v.State != job.Cancelled || v.ReasonText == "" {
		t.Errorf("a task that never had its turn: %s %q, %v", v.State, v.ReasonText, err)
	}
	eventually(t, "nothing is left on lanes", func() bool { return b.onLanes() == 0 })
}

// taskRuns counts the attempts of a group's tasks.
func (b *bundle) taskRuns(ref Ref) int {
	b.t.Helper()
	n, err := b.q.countSubjects(b.ctx, StreamRuns, prefixRuns+"lab."+ref.String()+".*.*")
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// The result of a cancelled group comes when nothing of it runs any more.
func TestCancelOfAGroupWaitsForItsTasks(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "1-20", Count: 20, MaxConcurrent: 3}
	ref := b.submit(array)
	m := b.machine("m1")
	c := m.claim()
	b.background(c.Hold)
	if state, err := b.q.Cancel(b.ctx, ref, "ada", "wrong data"); err != nil || state != job.Running {
		t.Fatalf("cancel: %s, %v", state, err)
	}
	e := <-c.Control()
	if e.Kind != ControlCancel || e.Reason != "wrong data" {
		t.Errorf("the task was told %+v", e)
	}
	for _, index := range []int{2, 3} { // they were on lanes
		if r := b.wait(TaskRef(ref.Number, index)); r.State != job.Cancelled {
			t.Errorf("task %d: %s", index, r.State)
		}
	}
	if n := len(b.resultsOf(ref)); n != 0 {
		t.Errorf("%d results of the group while a task of it runs", n)
	}
	if err := c.Finish(b.ctx, job.Result{Outcome: job.OutcomeCancelled}); err != nil {
		t.Fatal(err)
	}
	r := b.wait(ref)
	if r.State != job.Cancelled || r.Reason != "cancelled by ada: wrong data: 20 cancelled" || r.Tasks[job.Cancelled] != 20 {
		t.Errorf("the group: %s %q %v", r.State, r.Reason, r.Tasks)
	}
	b.background(m.workOff) // what is left on lanes is forgotten by whoever pulls it
	eventually(t, "nothing is left on lanes", func() bool { return b.onLanes() == 0 })
}

// resultsOf are the results of the group itself.
func (b *bundle) resultsOf(ref Ref) (own []job.Result) {
	for _, r := range b.results(ref) {
		if r.Index == nil {
			own = append(own, r)
		}
	}
	return own
}

// Tasks of different widths never hold more GPUs together than the group allows, and a task cancelled before its turn
// makes no room that is not there.
func TestGroupThrottledInGPUs(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	sweep := newJob("widths")
	sweep.Spec.Array, sweep.Spec.Group = "1-10", &job.Group{MaxGPUs: 5}
	sweep.Tasks = &job.Tasks{Indexes: "1-10", Count: 10}
	for i := range 10 {
		sweep.Tasks.Requirements = append(sweep.Tasks.Requirements, job.Requirements{GPUs: 1 + i%4})
	}
	ref := b.submit(sweep)
	eventually(t, "the first ones are there", func() bool { return b.onLanes() == 2 }) // 1 + 2, and 3 more do not fit
	if _, err := b.q.Cancel(b.ctx, TaskRef(ref.Number, 9), "ada", ""); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	held, most := 0, 0
	add := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		held += n
		most = max(most, held)
	}
	q := b.open()
	for range 4 {
		m := b.machineOn(q, "m")
		b.background(func(ctx context.Context) error {
			for {
				d, err := m.tryNextIn(ctx)
				if err != nil {
					return err
				}
				c, err := d.Claim(ctx, nil)
				if isDealtWith(err) {
					continue
				} else if err != nil {
					return err
				}
				add(d.Requirements.GPUs)
				if err := sleep(ctx, 30*time.Millisecond); err != nil { // the run
					return err
				}
				add(-d.Requirements.GPUs)
				if err := c.Finish(b.ctx, succeeded); err != nil {
					return err
				}
			}
		})
	}
	if r := b.wait(ref); r.Tasks[job.Succeeded] != 9 || r.Tasks[job.Cancelled] != 1 {
		t.Errorf("the group: %s %q", r.State, r.Reason)
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 5 || most < 3 {
		t.Errorf("%d GPUs were held at once, 5 are allowed", most)
	}
}

// A group that expires, and whose record is not kept any more, leaves the tasks that run alone: they end by themselves,
// each with its own result. What waited ends with the group.
func TestExpiryOfAGroupLeavesRunningTasksAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	stop := b.background(b.q.RunClerk)
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "1-6", Count: 6, MaxConcurrent: 3}
	deadline := time.Now().Add(4 * time.Second)
	array.Spec.Deadline = &deadline
	ref, m := b.submit(array), b.machine("m1")
	running := []*Claim{m.claim(), m.claim()}
	lost := make(chan error, len(running))
	for _, c := range running {
		b.background(func(ctx context.Context) error { lost <- c.Hold(ctx); return nil })
	}
	r := b.wait(ref)
	if r.State != job.Expired || r.Reason != "deadline" {
		t.Fatalf("the group: %s %q", r.State, r.Reason)
	}
	b.background(m.workOff)
	if r := b.wait(TaskRef(ref.Number, 3)); r.State != job.Expired || r.Attempt != 0 {
		t.Errorf("a task that waited: %s", r.State)
	}
	if v, err := b.q.Show(b.ctx, TaskRef(ref.Number, 6)); err != nil || v.State != job.Expired {
		t.Errorf("a task that never had its turn: %s, %v", v.State, err)
	}

	kv, err := b.q.js.KeyValue(b.ctx, BucketRecords)
	if err == nil {
		err = kv.Purge(b.ctx, ref.String()) // as its time to live does, after 90 days
	}
	if err != nil {
		t.Fatal(err)
	}
	stop()
	b.background(b.open().RunClerk)
	for range 2 {
		if _, err := b.q.newJanitor(b.ctx).round(b.ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range running {
		c.hint()
		select {
		case e := <-c.Control():
			t.Errorf("task %d, which runs, was told %+v", i+1, e)
		case err := <-lost:
			t.Errorf("a task that runs was lost: %v", err)
		default:
		}
		if rec := b.record(c.Ref()); rec.State != job.Running || rec.Cancel != nil {
			t.Errorf("task %d: %s, %+v", i+1, rec.State, rec.Cancel)
		}
		if err := c.Finish(b.ctx, succeeded); err != nil {
			t.Errorf("task %d: %v", i+1, err)
		}
		if r := b.wait(c.Ref()); r.State != job.Succeeded || r.Attempt != 1 {
			t.Errorf("task %d ended %s", i+1, r.State)
		}
	}
	if n := len(b.resultsOf(ref)); n != 1 {
		t.Errorf("%d results of the group", n)
	}
	eventually(t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
}
