package queue

import (
	"testing"
	"time"
)

func TestHeat(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var h heat
	if h.hot(now) || h.covers(0, now) || h.next(now) != 0 {
		t.Fatalf("a lane nobody has heard of: %+v", h)
	}
	h.warm(2*time.Hour, now)
	h.warm(time.Hour, now)
	if h.hot(now) || h.covers(0, now) {
		t.Error("a lane that gets its first job in an hour is hot already")
	}
	if got := h.next(now); got != time.Hour {
		t.Errorf("next in %v, want 1h", got)
	}
	if !h.covers(time.Hour+time.Minute, now) || h.covers(time.Hour+hotFor, now) || h.covers(time.Hour-time.Minute, now) {
		t.Error("who is there in an hour is there a minute later, and neither long after nor before")
	}
	// A job that comes now must not be hidden by one that comes later.
	h.warm(0, now)
	if !h.hot(now) || !h.covers(0, now) || h.hot(now.Add(hotFor)) {
		t.Errorf("a lane that got a job now: %+v", h)
	}
	for _, at := range []time.Duration{time.Hour, 2 * time.Hour} {
		if !h.hot(now.Add(at-pullExpires/2)) || !h.hot(now.Add(at+hotFor/2)) || h.hot(now.Add(at+hotFor)) {
			t.Errorf("around %v it must be hot, and then no more", at)
		}
	}
	later := now.Add(3 * time.Hour)
	for i := range 2 * maxDues {
		h.warm(pullExpires+time.Duration(i)*time.Second, later)
	}
	if len(h.dues) != maxDues || !h.dues[0].After(later) {
		t.Errorf("%d times remembered, the first %v", len(h.dues), h.dues[0].Sub(later))
	}
}
