package queue

import (
	"slices"
	"time"
)

const (
	// hotFor is how long a lane that got a job is worth a waiting pull.
	hotFor = 5 * time.Minute

	// maxDues bounds the times to come that are remembered of one lane. What comes at others is found by the sweep.
	maxDues = 128
)

// heat says how recently a lane got a job and when it will get the next. It is kept on this process's steady clock, and
// announced to others as a span of time: neither a clock that is set nor one that differs between machines makes a busy
// lane look quiet.
type heat struct {
	at   time.Time   // when it last got a job
	dues []time.Time // when it will, in order
	rev  uint64      // of the last announcement
}

// warm notes that the lane gets a job in so long.
func (h *heat) warm(in time.Duration, now time.Time) {
	at := now.Add(in)
	if in < pullExpires {
		if at.After(h.at) {
			h.at = at
		}
		return
	}
	h.dues = slices.DeleteFunc(slices.Clone(h.dues), func(t time.Time) bool { return now.Sub(t) > hotFor })
	i, known := slices.BinarySearchFunc(h.dues, at, time.Time.Compare)
	if !known && len(h.dues) < maxDues {
		h.dues = slices.Insert(h.dues, i, at)
	}
}

// hot reports whether the lane is worth a waiting pull: it got a job lately or is about to.
func (h heat) hot(now time.Time) bool {
	if now.Sub(h.at) < hotFor {
		return true
	}
	return slices.ContainsFunc(h.dues, func(t time.Time) bool { return now.Sub(t) < hotFor && t.Sub(now) < pullExpires })
}

// covers reports whether those who serve the lane will look at it anyhow in so long.
func (h heat) covers(in time.Duration, now time.Time) bool {
	at := now.Add(in)
	soon := func(t time.Time) bool { return !t.IsZero() && !t.After(at) && at.Sub(t) < hotFor/2 }
	return soon(h.at) || slices.ContainsFunc(h.dues, soon)
}

// next is how long it is until the lane is due, 0 when that is not known.
func (h heat) next(now time.Time) time.Duration {
	for _, t := range h.dues {
		if d := t.Sub(now); d > 0 {
			return d
		}
	}
	return 0
}

// usedWithin reports whether the lane got a job in the time before now, or will get one.
func (h heat) usedWithin(d time.Duration, now time.Time) bool {
	return now.Sub(h.at) < d || h.next(now) > 0
}
