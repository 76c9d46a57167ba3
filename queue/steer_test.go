package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func TestHoldAndRelease(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	held, free := b.submit(newJob("held")), b.submit(newJob("free"))
	if err := b.q.Hold(b.ctx, held, "ada", "data is not there yet"); err != nil {
		t.Fatal(err)
	}
	if v, err := b.q.Show(b.ctx, held); err != nil || v.State != job.Held || v.Reason != "Held" || v.ReasonText != "held by ada: data is not there yet" {
		t.Errorf("show: %+v, %v", v, err)
	}
	m := b.machine("m1")
	b.background(m.workOff)
	if r := b.wait(free); r.State != job.Succeeded {
		t.Errorf("the other job ended %s", r.State)
	}
	eventually(t, "the held one is off its lane", func() bool { return b.onLanes() == 0 })
	if rec := b.record(held); rec.State != job.Held || len(rec.Attempts) != 0 {
		t.Errorf("the held job: %+v", rec)
	}
	if err := b.q.Release(b.ctx, held, "ada"); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(held); r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("after the release: %+v", r)
	}
	for verb, err := range map[string]error{
		"hold": b.q.Hold(b.ctx, held, "ada", ""), "release": b.q.Release(b.ctx, held, "ada"),
		"priority": b.setPriority(held, 3),
	} {
		if !errors.Is(err, ErrFinal) {
			t.Errorf("%s of an ended job: %v", verb, err)
		}
	}
}

func TestHoldOfARunningJobIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("running"))
	c := b.machine("m1").claim()
	if err := b.q.Hold(b.ctx, ref, "ada", ""); !errors.Is(err, ErrRunning) {
		t.Errorf("hold: %v", err)
	}
	if err := b.setPriority(ref, 101); !errors.Is(err, ErrBadRequest) {
		t.Errorf("priority 101: %v", err)
	}
	if err := b.setPriority(ref, 90); err != nil {
		t.Fatal(err)
	}
	if err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeFailed}, Requeue{}); err != nil {
		t.Fatal(err)
	}
	d := b.machine("m2").next()
	if d.Lane.Band != job.BandHigh || d.Priority != 90 {
		t.Errorf("it came back on %v with priority %d", d.Lane, d.Priority)
	}
}

func TestPriorityMovesAWaitingJob(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	first, second := b.submit(newJob("first")), b.submit(newJob("second"))
	eventually(t, "both wait", func() bool { return b.onLanes() == 2 })
	if err := b.setPriority(second, 80); err != nil {
		t.Fatal(err)
	}
	m := b.machine("m1") // its lanes come in the order of their bands
	for _, want := range []Ref{second, first} {
		c := m.claim()
		if c.Ref() != want {
			t.Fatalf("got %s, want %s", c.Ref(), want)
		}
		if err := c.Finish(b.ctx, succeeded); err != nil {
			t.Fatal(err)
		}
	}
	b.background(m.workOff)
	eventually(t, "the message of the old priority is forgotten", func() bool { return b.onLanes() == 0 })
	if n := len(b.results(second)); n != 1 {
		t.Errorf("%d results", n)
	}
}

func (b *bundle) setPriority(ref Ref, priority int) error {
	_, err := b.q.Set(b.ctx, ref, "ada", Change{Priority: &priority})
	return err
}

// A release whose message a crash swallowed is put back by the janitor.
func TestCrashWhileReleasing(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("held"))
	eventually(t, "its message is on a lane", func() bool { return b.onLanes() == 1 })
	if err := b.q.Hold(b.ctx, ref, "ada", ""); err != nil {
		t.Fatal(err)
	}
	m := b.machine("m1")
	b.background(m.workOff)
	eventually(t, "the first message is gone", func() bool { return b.onLanes() == 0 })
	q := b.open()
	crashOnce(q, "steer:dispatch")
	if err := q.Release(b.ctx, ref, "ada"); !errors.Is(err, errCrash) {
		t.Fatalf("the crash did not happen: %v", err)
	}
	if did, err := b.q.newJanitor(b.ctx).round(b.ctx); err != nil || did.Requeued != 1 {
		t.Fatalf("%+v, %v", did, err)
	}
	if r := b.wait(ref); r.State != job.Succeeded {
		t.Errorf("it ended %s", r.State)
	}
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { x := now.Add(d); return &x }
	hour := job.Duration(time.Hour)
	ran := &job.Record{QueuedAt: now.Add(-2 * time.Hour), Attempts: []job.Attempt{{}}}
	for _, c := range []struct {
		name string
		spec job.Spec
		rec  *job.Record
		want string
	}{
		{"no limit", job.Spec{}, nil, ""},
		{"deadline to come", job.Spec{Deadline: at(time.Second)}, nil, ""},
		{"deadline now", job.Spec{Deadline: at(0)}, nil, "deadline"},
		{"deadline, ran before", job.Spec{Deadline: at(-time.Second)}, ran, "deadline"},
		{"waited too long", job.Spec{WaitTimeout: hour}, nil, "wait_timeout"},
		{"waited not so long", job.Spec{WaitTimeout: 3 * hour}, nil, ""},
		{"has been started", job.Spec{WaitTimeout: hour}, ran, ""},
		{"counts from its begin", job.Spec{WaitTimeout: hour, Begin: at(-30 * time.Minute)}, nil, ""},
	} {
		j := &job.Job{SubmittedAt: now.Add(-2 * time.Hour), Spec: c.spec}
		if got, text, yes := overdue(j, c.rec, now); got != c.want || yes != (c.want != "") || yes != (text != "") {
			t.Errorf("%s: %q %q %v, want %q", c.name, got, text, yes, c.want)
		}
	}
}

// store puts a job on the jobs stream with fields that submit does not take yet.
func (b *bundle) store(j job.Job) Ref {
	b.t.Helper()
	if err := b.q.complete(&j); err != nil {
		b.t.Fatal(err)
	}
	ack, err := b.q.publish(b.ctx, newMsg(jobSubject(j.Project, j.User), mustJSON(b.t, j)))
	if err != nil {
		b.t.Fatal(err)
	}
	return JobRef(ack.Sequence)
}

func TestTimeLimitsOfWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	impatient := newJob("impatient")
	impatient.Spec.WaitTimeout = job.Duration(time.Second)
	late := newJob("late")
	deadline := time.Now().Add(time.Second)
	late.Spec.Deadline = &deadline
	ref1, ref2 := b.store(impatient), b.store(late)
	for ref, reason := range map[Ref]string{ref1: "wait_timeout", ref2: "deadline"} {
		if r := b.wait(ref); r.State != job.Expired || r.Reason != reason || r.Evidence == "" {
			t.Errorf("%s: %+v", ref, r)
		}
	}
	b.background(b.machine("m1").workOff)
	eventually(t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
	if n := b.runs(ref1) + b.runs(ref2); n != 0 {
		t.Errorf("%d runs of jobs that had expired", n)
	}
}

// A deadline says when a job must have begun; one that runs is left alone.
func TestDeadlineLeavesARunningJobAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	j := newJob("in time")
	deadline := time.Now().Add(3 * time.Second)
	j.Spec.Deadline = &deadline
	ref := b.store(j)
	c := b.machine("m1").claim()
	eventually(t, "the wake-up came and went", func() bool {
		n, err := b.q.countSubjects(b.ctx, StreamDuties, prefixWake+">")
		due, err2 := b.q.countSubjects(b.ctx, StreamDuties, prefixDue+">")
		return err == nil && err2 == nil && n == 0 && due == 0
	})
	if rec := b.record(ref); rec.State != job.Running {
		t.Fatalf("it is %s", rec.State)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
}

func TestBegin(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	j := newJob("later")
	begin := time.Now().Add(2 * time.Second)
	j.Spec.Begin = &begin
	ref := b.store(j)
	d := b.machine("m1").next()
	if now := time.Now(); d.Ref() != ref || now.Before(begin.Add(-50*time.Millisecond)) {
		t.Errorf("%s came %v before its begin", d.Ref(), begin.Sub(now))
	}
}

// A held group starts no further task, neither from its window nor from beyond, until it is released.
func TestHoldOfAGroup(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.Window = 4
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	array := newJob("held")
	array.Tasks = &job.Tasks{Indexes: "1-10", Count: 10}
	ref := b.submit(array)
	eventually(t, "the window is there", func() bool { return b.onLanes() == 4 })
	if err := b.q.Hold(b.ctx, ref, "ada", ""); err != nil {
		t.Fatal(err)
	}
	m := b.machine("m1")
	for range 4 {
		if _, err := m.next().Claim(b.ctx, nil); !errors.Is(err, ErrStepBack) {
			t.Fatalf("a task of a held group: %v", err)
		}
	}
	if err := b.q.Release(b.ctx, ref, "ada"); err != nil {
		t.Fatal(err)
	}
	b.background(m.workOff)
	if r := b.wait(ref); r.State != job.Succeeded || r.Reason != "10 succeeded" {
		t.Errorf("the group: %s, %q", r.State, r.Reason)
	}
}

// To release what nobody holds changes nothing: a job that was never claimed has no record, nor has a held group's task.
func TestReleaseOfWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "1-2", Count: 2}
	free, group := b.submit(newJob("free")), b.submit(array)
	for _, ref := range []Ref{free, TaskRef(group.Number, 2)} {
		if err := b.q.Release(b.ctx, ref, "ada"); err != nil {
			t.Errorf("release of %s: %v", ref, err)
		}
		if v, err := b.q.Show(b.ctx, ref); err != nil || v.State != job.Queued || v.Record != nil {
			t.Errorf("%s after it: %+v, %v", ref, v, err)
		}
	}
}
