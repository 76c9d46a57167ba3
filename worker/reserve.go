package worker

import (
	"cmp"
	"slices"
	"time"
)

// GPUEnd says until when a GPU is taken. A zero Until: free now. Unknown: its run has no time limit.
type GPUEnd struct {
	UUID    string
	Until   time.Time
	Unknown bool
}

// unknownEnd is how long a run without a time limit is taken to go on: longer than anything that says when it ends.
const unknownEnd = 30 * 24 * time.Hour

// FreeAt is when a machine could have n of these GPUs free together, and which: those that end soonest. ok is false when
// there are fewer than n.
func FreeAt(now time.Time, n int, ends []GPUEnd) (at time.Time, uuids []string, ok bool) {
	if n > len(ends) {
		return time.Time{}, nil, false
	}
	until := func(e GPUEnd) time.Time {
		switch {
		case e.Unknown:
			return now.Add(unknownEnd)
		case e.Until.Before(now):
			return now // over its limit, or free
		}
		return e.Until
	}
	sorted := slices.Clone(ends)
	slices.SortFunc(sorted, func(a, b GPUEnd) int { return cmp.Or(until(a).Compare(until(b)), cmp.Compare(a.UUID, b.UUID)) })
	at = now
	for _, e := range sorted[:n] {
		uuids = append(uuids, e.UUID)
		at = until(e) // they are in order: the last is the latest
	}
	return at, uuids, true
}

const (
	outbidShare = 0.2             // of the time left: a smaller gain is not worth a change of machine
	outbidLeast = 5 * time.Second // nor is this
)

// Outbids reports whether a machine that is free at mine should take a reservation over from one that is free at theirs.
func Outbids(now, mine, theirs time.Time) bool {
	gain := theirs.Sub(mine)
	return gain >= outbidLeast && gain >= time.Duration(outbidShare*float64(theirs.Sub(now)))
}

// EndsInTime reports whether a job may use reserved GPUs before they are needed: only one that says when it ends.
func EndsInTime(now time.Time, limit time.Duration, neededAt time.Time) bool {
	return limit > 0 && !now.Add(limit).After(neededAt)
}
