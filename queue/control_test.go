package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func TestCancelOfAWaitingJob(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	b.background(func(ctx context.Context) error { return b.q.ServeControl(ctx, MachineControl{Machine: "m1"}) })
	client := b.open()
	ref := b.submit(newJob("unwanted"))
	state, err := client.Cancel(b.ctx, ref, "ada", "wrong data")
	if err != nil || state != job.Cancelled {
		t.Fatalf("cancel: %s, %v", state, err)
	}
	r := b.wait(ref)
	if r.State != job.Cancelled || r.Attempt != 0 || r.Reason != "cancelled by ada: wrong data" {
		t.Errorf("result: %+v", r)
	}
	if _, err := client.Cancel(b.ctx, ref, "ada", ""); !errors.Is(err, ErrFinal) {
		t.Errorf("a second cancel: %v", err)
	}
	if _, err := client.Cancel(b.ctx, JobRef(99), "ada", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("cancel of nothing: %v", err)
	}
	m := b.machine("m1")
	b.background(m.workOff)
	eventually(t, "the lane is empty", func() bool { return b.onLanes() == 0 })
	if n := len(b.results(ref)); n != 1 {
		t.Errorf("%d results", n)
	}
}

// A cancel reaches the holder by a message, long before its next look at the record.
func TestCancelReachesTheHolder(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.AckWait = 3 * patience // Hold looks by itself each third of it: too late for this test
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("running"))
	c := b.machine("m1").claim()
	b.background(c.Hold)
	state, err := b.q.Cancel(b.ctx, ref, "ada", "enough") // no worker serves control: it is done here
	if err != nil || state != job.Running {
		t.Fatalf("cancel: %s, %v", state, err)
	}
	select {
	case e := <-c.Control():
		if e.Kind != ControlCancel || e.By != "ada" || e.Reason != "enough" {
			t.Errorf("event: %+v", e)
		}
	case <-time.After(patience - 5*time.Second):
		t.Fatal("the holder was not told")
	}
	if err := c.Finish(b.ctx, job.Result{Outcome: job.OutcomeCancelled, Reason: "cancelled by ada: enough"}); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(ref); r.State != job.Cancelled || r.Attempt != 1 {
		t.Errorf("result: %+v", r)
	}
}

// A hint that gets lost is made good by the next look.
func TestCancelIsSeenInTheRecord(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.AckWait = time.Second
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("running"))
	c := b.machine("m1").claim()
	b.background(c.Hold)
	if _, err := b.q.wishCancel(b.ctx, ref, job.Cancel{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Control():
	case <-time.After(patience):
		t.Fatal("the holder never saw it")
	}
	if err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeFailed}, Requeue{}); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(ref); r.State != job.Cancelled || r.Attempts[0].Outcome != job.OutcomeFailed {
		t.Errorf("a cancelled job that was to be tried again: %+v", r)
	}
}

func TestCancelledWhileItsMachineWasLost(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("lost"))
	m := b.machine("m1")
	m.claim()
	m.die()
	if _, err := b.q.Cancel(b.ctx, ref, "ada", ""); err != nil {
		t.Fatal(err)
	}
	heir := b.machine("m2")
	b.background(heir.workOff)
	r := b.wait(ref)
	if r.State != job.Cancelled || len(r.Attempts) != 1 || r.Attempts[0].Outcome != job.OutcomeMachineLost {
		t.Errorf("result: %+v", r)
	}
	if n := b.runs(ref); n != 1 {
		t.Errorf("%d attempt messages", n)
	}
}

func TestCancelOfAGroup(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.Window = 4
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "0-99", Count: 100}
	ref := b.submit(array)
	m := b.machine("m1")
	c := m.claim()
	b.background(c.Hold)
	if _, err := b.q.Cancel(b.ctx, ref, "ada", ""); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Control():
	case <-time.After(patience):
		t.Fatal("the running task was not told")
	}
	if err := c.Finish(b.ctx, job.Result{Outcome: job.OutcomeCancelled}); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(ref); r.State != job.Cancelled {
		t.Errorf("the group ended %s", r.State)
	}
	b.background(m.workOff)
	eventually(t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
	states, err := b.q.TaskStates(b.ctx, "lab", ref.Number)
	if err != nil || len(states) != 1 || states[job.Cancelled] < 4 {
		t.Errorf("tasks: %v, %v", states, err)
	}
	view, err := b.q.Show(b.ctx, TaskRef(ref.Number, 99))
	if err != nil || view.State != job.Cancelled {
		t.Errorf("a task whose turn never came: %+v, %v", view, err)
	}
}

func TestCancelIsForTheProjectOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(func(ctx context.Context) error { return b.q.ServeControl(ctx, MachineControl{Machine: "m1"}) })
	ref := b.submit(newJob("mine"))
	eventually(t, "control is served", func() bool {
		_, err := b.q.ask(b.ctx, prefixControl+"cancel.other.eve", controlRequest{Job: ref.String()})
		if err != nil && !errors.Is(err, ErrNotAllowed) {
			return false
		}
		if err == nil {
			t.Error("another project's user cancelled it")
		}
		return true
	})
	for _, body := range []string{"", "\x00", `{"job":"x"}`, `[]`} {
		m, err := b.q.nc.RequestWithContext(b.ctx, prefixControl+"cancel.lab.eve", []byte(body))
		if err != nil || len(m.Data) == 0 {
			t.Errorf("request %q: no answer (%v)", body, err)
		}
	}
	if rec := b.record(ref); rec != nil {
		t.Errorf("the record: %+v", rec)
	}
}

func TestDrainReachesItsMachine(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	drained := make(chan string, 4)
	for _, name := range []string{"a.lab", "b.lab"} {
		q := b.open()
		b.background(func(ctx context.Context) error {
			return q.ServeControl(ctx, MachineControl{
				Machine: name,
				Drain: func(by, reason string, patience time.Duration) {
					drained <- name + " " + by + " " + reason + " " + patience.String()
				},
				Undrain: func(by string) { drained <- name + " back by " + by },
			})
		})
	}
	eventually(t, "b answers", func() bool { return b.q.Drain(b.ctx, "b.lab", "ada", "new disk", time.Minute) == nil })
	if err := b.q.Undrain(b.ctx, "b.lab", "ada"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"b.lab ada new disk 1m0s", "b.lab back by ada"} {
		if got := <-drained; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := b.q.Drain(b.ctx, "c.lab", "ada", "", 0); err == nil {
		t.Error("a machine that is not there was drained")
	}
}
