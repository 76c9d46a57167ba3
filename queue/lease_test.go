package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func newLease(user string) job.Job {
	j := newJob("")
	j.User = user
	j.Spec = job.Spec{Kind: job.KindLease, Resources: job.Resources{GPUs: job.CountOf(1)}}
	j.Requirements = job.Requirements{GPUs: 1}
	return j
}

// held submits a lease, claims it and says that it is held.
func (m *machine) held(user string, until *time.Time) (Ref, *Claim) {
	m.t.Helper()
	ref := m.submit(newLease(user))
	c := m.claim()
	if c.Ref() != ref {
		m.t.Fatalf("claimed %s, want %s", c.Ref(), ref)
	}
	if err := c.Held(m.ctx, until, []job.LeasedGPU{{UUID: "GPU-a", Index: 3}}); err != nil {
		m.t.Fatal(err)
	}
	return ref, c
}

func TestLeaseIsReleasedByItsHolderOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	ref, c := m.held("ada", nil)
	b.background(c.Hold)
	if _, err := b.q.ReleaseLease(b.ctx, ref, "bob", "", false); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("released by a stranger: %v", err)
	}
	if state, err := b.q.WithdrawLease(b.ctx, ref, "ada", ""); err != nil || state != job.Running {
		t.Errorf("withdraw of a held lease: %s, %v", state, err)
	}
	if state, err := b.q.ReleaseLease(b.ctx, ref, "ada", "done", false); err != nil || state != job.Running {
		t.Fatalf("release: %s, %v", state, err)
	}
	if e := <-c.Control(); e.Kind != ControlRelease || e.By != "ada" || e.Reason != "done" {
		t.Errorf("event %+v", e)
	}
	if err := c.Finish(b.ctx, job.Result{Outcome: job.OutcomeSucceeded, Reason: "released by ada"}); err != nil {
		t.Fatal(err)
	}
	_, err := b.q.ReleaseLease(b.ctx, ref, "ada", "", false)
	if !errors.Is(err, ErrFinal) || !strings.Contains(err.Error(), "released by ada") {
		t.Errorf("released twice: %v", err)
	}
	if r := b.wait(ref); r.State != job.Succeeded {
		t.Errorf("result %+v", r)
	}
}

func TestLeaseOfAnotherIsReleasedByForce(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref, c := b.machine("m1").held("ada", nil)
	b.background(c.Hold)
	if state, err := b.q.ReleaseLease(b.ctx, ref, "bob", "", true); err != nil || state != job.Running {
		t.Fatalf("release: %s, %v", state, err)
	}
	if e := <-c.Control(); e.Kind != ControlRelease || e.By != "bob" {
		t.Errorf("event %+v", e)
	}
}

func TestWaitingLeaseIsWithdrawn(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	ref := b.submit(newLease("ada"))
	if state, err := b.q.WithdrawLease(b.ctx, ref, "ada", "nothing was free"); err != nil || state != job.Cancelled {
		t.Fatalf("withdraw: %s, %v", state, err)
	}
	rec, err := b.q.WaitLease(b.ctx, ref)
	if err != nil || rec.State != job.Cancelled {
		t.Errorf("record %+v, %v", rec, err)
	}
	if err := b.q.ExtendLease(b.ctx, ref, "ada", nil); !errors.Is(err, ErrFinal) {
		t.Errorf("extend of an ended lease: %v", err)
	}
	waits := b.submit(newLease("ada"))
	if err := b.q.ExtendLease(b.ctx, waits, "ada", nil); !errors.Is(err, ErrBadRequest) {
		t.Errorf("extend of a waiting lease: %v", err)
	}
	if state, err := b.q.ReleaseLease(b.ctx, waits, "ada", "", false); err != nil || state != job.Cancelled {
		t.Errorf("release of a waiting lease: %s, %v", state, err)
	}
}

func TestLeaseEndMoves(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	first := time.Now().Add(time.Hour).UTC()
	ref, c := b.machine("m1").held("ada", &first)
	b.background(c.Hold)
	rec, err := b.q.WaitLease(b.ctx, ref)
	if err != nil || !sameTime(rec.Lease.Until, &first) || len(rec.Lease.GPUs) != 1 || rec.Lease.GPUs[0].Index != 3 {
		t.Fatalf("lease %+v, %v", rec.Lease, err)
	}
	later := first.Add(time.Hour)
	for _, until := range []*time.Time{&later, nil} {
		if err := b.q.ExtendLease(b.ctx, ref, "ada", until); err != nil {
			t.Fatal(err)
		}
		if e := <-c.Control(); e.Kind != ControlExtend || !sameTime(e.Until, until) {
			t.Errorf("event %+v, want until %v", e, until)
		}
	}
	if err := b.q.ExtendLease(b.ctx, ref, "bob", nil); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("extended by a stranger: %v", err)
	}
}

// Who resumes a lease hears of its end, and of a release that came while nobody listened.
func TestResumedLeaseHearsWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	until := time.Now().Add(time.Hour)
	m := b.machine("m1")
	ref, c := m.held("ada", &until)
	was := c.State()
	m.s.Detach()
	again := b.machine("m1")
	c, err := again.q.Resume(b.ctx, again.s, was)
	if err != nil {
		t.Fatal(err)
	}
	b.background(c.Hold)
	if e := <-c.Control(); e.Kind != ControlExtend || !sameTime(e.Until, &until) {
		t.Errorf("event %+v", e)
	}
	if _, err := b.q.ReleaseLease(b.ctx, ref, "ada", "", false); err != nil {
		t.Fatal(err)
	}
	if e := <-c.Control(); e.Kind != ControlRelease {
		t.Errorf("event %+v", e)
	}
}

// A lease is given once: when its machine is lost it ends, it is not given again.
func TestLostLeaseEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	ref, _ := m.held("ada", nil)
	m.s.Detach()
	other := b.machine("m2")
	b.background(other.workOff)
	if r := b.wait(ref); r.State != job.Failed || r.Outcome != job.OutcomeMachineLost || r.Attempt != 1 {
		t.Errorf("result: state %s, outcome %s, attempt %d", r.State, r.Outcome, r.Attempt)
	}
}

func TestOnlyLeasesAreReleased(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	ref := b.submit(newJob("plain"))
	if _, err := b.q.ReleaseLease(b.ctx, ref, "ada", "", true); !errors.Is(err, ErrNoLease) {
		t.Errorf("release of a job: %v", err)
	}
	if _, err := b.q.ReleaseLease(b.ctx, JobRef(99), "ada", "", true); !errors.Is(err, ErrNotFound) {
		t.Errorf("release of nothing: %v", err)
	}
}

func TestLeaseDesk(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	me := Me{Project: "lab", User: "ada"}
	if _, err := b.q.Leases(b.ctx, "m1", me); !errors.Is(err, ErrNoWorker) {
		t.Errorf("nobody's leases: %v", err)
	}
	held := []HeldLease{{Number: 7, User: "ada", GPUs: []job.LeasedGPU{{UUID: "GPU-a"}}}}
	worker := b.open()
	b.background(func(ctx context.Context) error {
		return worker.ServeLeases(ctx, LeaseDesk{
			Machine: "m1", Held: func() []HeldLease { return held },
			Room: func(_ context.Context, r job.Requirements) Room { return Room{OK: r.GPUs == 1, Text: "one is free"} },
		})
	})
	eventually(t, "the desk answers", func() bool { _, err := b.q.Leases(b.ctx, "m1", me); return err == nil })
	got, err := b.q.Leases(b.ctx, "m1", me)
	if err != nil || len(got) != 1 || got[0].Number != 7 {
		t.Errorf("leases %+v, %v", got, err)
	}
	for gpus, want := range map[int]bool{1: true, 2: false} {
		if room, err := b.q.AskRoom(b.ctx, "m1", job.Requirements{GPUs: gpus}, me); err != nil || room.OK != want || room.Text != "one is free" {
			t.Errorf("room for %d: %+v, %v", gpus, room, err)
		}
	}
}

func TestEventsAreListedByKind(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	for _, e := range []Event{{Kind: LeaseEvent, Project: "lab", By: "ada", Text: "took"}, {Kind: "drain", By: "bob"}, {Kind: LeaseEvent, Project: "lab", By: "ada", Text: "released"}} {
		if err := b.q.Note(b.ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.q.Events(b.ctx, LeaseEvent, time.Time{})
	if err != nil || len(all) != 2 || all[0].Text != "took" || all[1].Text != "released" {
		t.Errorf("events %+v, %v", all, err)
	}
}
