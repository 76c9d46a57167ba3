package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func TestReservationIsOneMachinesAndEndsByItself(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	ref := JobRef(7)
	first := Reservation{Job: "7", Machine: "alpha", FreeAt: time.Now().Add(time.Hour), GPUs: []string{"GPU-1"}}
	rev, err := b.q.Reserve(b.ctx, ref, first, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.q.Reserve(b.ctx, ref, Reservation{Job: "7", Machine: "beta"}, 0); !errors.Is(err, ErrStepBack) {
		t.Fatalf("a second machine reserved the same job: %v", err)
	}
	got, seen, err := b.q.Reservation(b.ctx, ref)
	if err != nil || got.Machine != "alpha" || seen != rev {
		t.Fatalf("Reservation = %+v at %d, %v; want alpha's at %d", got, seen, err, rev)
	}
	// A machine that is free sooner replaces it; the first one then cannot renew.
	if _, err := b.q.Reserve(b.ctx, ref, Reservation{Job: "7", Machine: "beta", FreeAt: time.Now()}, rev); err != nil {
		t.Fatal(err)
	}
	if _, err := b.q.Reserve(b.ctx, ref, first, rev); !errors.Is(err, ErrStepBack) {
		t.Errorf("the one who was outbid renewed: %v", err)
	}
	if err := b.q.Unreserve(b.ctx, ref, rev); err != nil {
		t.Errorf("giving up what is not one's own any more must do nothing: %v", err)
	}
	got, rev, err = b.q.Reservation(b.ctx, ref)
	if err != nil || got.Machine != "beta" {
		t.Fatalf("Reservation = %+v, %v", got, err)
	}
	if _, err := b.q.Reserve(b.ctx, JobRef(8), Reservation{Job: "8", Machine: "alpha"}, 0); err != nil {
		t.Fatal(err)
	}
	if all, err := b.q.Reservations(b.ctx); err != nil || len(all) != 2 || all[0].Job+all[1].Job != "78" {
		t.Errorf("Reservations = %+v, %v", all, err)
	}
	if err := b.q.Unreserve(b.ctx, ref, rev); err != nil {
		t.Fatal(err)
	}
	if got, rev, err = b.q.Reservation(b.ctx, ref); err != nil || got.Machine != "" {
		t.Fatalf("after it was given up: %+v, %v", got, err)
	}
	if all, err := b.q.Reservations(b.ctx); err != nil || len(all) != 1 || all[0].Job != "8" {
		t.Errorf("Reservations = %+v, %v", all, err)
	}
	if _, err := b.q.Reserve(b.ctx, ref, first, rev); err != nil {
		t.Errorf("a job could not be reserved again: %v", err)
	}
}

func TestLaneHeadIsTheFirstThatWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	var first uint64
	for i := range 3 {
		r, err := b.q.Submit(b.ctx, newJob("wide"))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = r.Number
		}
	}
	var lane job.Lane
	for lane == (job.Lane{}) {
		changed := b.q.LanesChanged()
		for _, l := range b.q.Lanes() {
			lane = l.Lane
		}
		if lane == (job.Lane{}) {
			<-changed
		}
	}
	for {
		head, ok, err := b.q.LaneHead(b.ctx, lane)
		if err != nil {
			t.Fatal(err)
		}
		if !ok { // the clerk has not come to it yet
			if sleep(b.ctx, 10*time.Millisecond) != nil {
				t.Fatal("no head appeared")
			}
			continue
		}
		if head.Ref != JobRef(first) || head.QueuedAt.IsZero() {
			t.Fatalf("head %+v, want job %d", head, first)
		}
		break
	}
}
