package queue

import (
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// limitTold waits for the next time limit the holder is told of.
func limitTold(t *testing.T, c *Claim) time.Duration {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case e := <-c.Control():
			if e.Kind == ControlLimit {
				return e.Limit
			}
		case <-late:
			t.Fatal("the holder was not told of a new time limit")
		}
	}
}

func (b *bundle) setLimit(ref Ref, limit time.Duration) {
	b.t.Helper()
	d := job.Duration(limit)
	if _, err := b.q.Set(b.ctx, ref, "ada", Change{TimeLimit: &d}); err != nil {
		b.t.Fatal(err)
	}
}

// A new time limit reaches the holder by a message, stands in the record, and is told once more to a successor that
// resumes the claim. The looks that Hold takes by itself come too late for this test.
func TestTimeLimitReachesTheHolder(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.AckWait = 3 * patience
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("long"))
	m := b.machine("m1")
	c := m.claim()
	if got := c.TakeTimeLimit(b.ctx); got != 0 {
		t.Errorf("it starts with %s", got)
	}
	stop := b.background(c.Hold)
	b.setLimit(ref, time.Hour)
	if got := limitTold(t, c); got != time.Hour || c.ExpectedLimit() != time.Hour {
		t.Errorf("told %s, expects %s", got, c.ExpectedLimit())
	}
	if rec := b.record(ref); rec.TimeLimit == nil || rec.TimeLimit.Std() != time.Hour || rec.Epoch != 1 || rec.State != job.Running {
		t.Errorf("record: %+v", rec)
	}
	if v, err := b.q.Show(b.ctx, ref); err != nil || v.TimeLimit.Std() != time.Hour {
		t.Errorf("show says %s, %v", v.TimeLimit, err)
	}
	stop()
	m.s.Detach()
	b.setLimit(ref, 0) // nobody hears it
	heir := b.machine("m1")
	again, err := heir.q.Resume(b.ctx, heir.s, c.State())
	if err != nil {
		t.Fatal(err)
	}
	b.background(again.Hold)
	if got := limitTold(t, again); got != 0 {
		t.Errorf("the successor was told %s", got)
	}
}

// Of a group it reaches the tasks that run, and those that start later; a task's own wins.
func TestTimeLimitOfAGroup(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.AckWait = 3 * patience
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	array := newJob("tasks")
	array.Tasks = &job.Tasks{Indexes: "1-3", Count: 3}
	ref := b.submit(array)
	m := b.machine("m1")
	first, second := m.claim(), m.claim()
	b.background(first.Hold)
	b.background(second.Hold)
	b.setLimit(second.Ref(), time.Minute)
	if got := limitTold(t, second); got != time.Minute {
		t.Errorf("the one task was told %s", got)
	}
	b.setLimit(ref, time.Hour)
	if got := limitTold(t, first); got != time.Hour {
		t.Errorf("a task that runs was told %s", got)
	}
	third := m.claim()
	if got := third.TakeTimeLimit(b.ctx); got != time.Hour {
		t.Errorf("a task that starts later has %s", got)
	}
	if got := second.TakeTimeLimit(b.ctx); got != time.Minute {
		t.Errorf("the task with its own has %s", got)
	}
	if v, err := b.q.Show(b.ctx, first.Ref()); err != nil || v.TimeLimit.Std() != time.Hour {
		t.Errorf("show says %s, %v", v.TimeLimit, err)
	}
}

// A job submitted with hold never comes to a lane before it is released, also where its clerk crashed.
func TestSubmittedHeld(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	j := newJob("held")
	j.Spec.Hold = true
	ref := b.submit(j)
	if did, err := b.q.newJanitor(b.ctx).round(b.ctx); err == nil && did.Requeued != 0 {
		t.Errorf("the janitor queued it: %+v", did)
	}
	b.background(b.q.RunClerk)
	eventually(t, "it has a record", func() bool { return b.record(ref) != nil })
	if rec := b.record(ref); rec.State != job.Held || rec.Epoch != 1 {
		t.Fatalf("record: %+v", rec)
	}
	if did, err := b.q.newJanitor(b.ctx).round(b.ctx); err != nil || did.Requeued != 0 || b.onLanes() != 0 {
		t.Errorf("the janitor did %+v, %v; %d on lanes", did, err, b.onLanes())
	}
	if err := b.q.Release(b.ctx, ref, "ada"); err != nil {
		t.Fatal(err)
	}
	b.background(b.machine("m1").workOff)
	if r := b.wait(ref); r.State != job.Succeeded || len(b.results(ref)) != 1 {
		t.Errorf("it ended %s", r.State)
	}
}
