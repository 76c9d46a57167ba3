package worker

import (
	"cmp"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// AgeAfter is how long the first job of a lane waits before its lane counts one band higher: low priority moves.
const AgeAfter = 2 * time.Hour

// Order is what decides which lane comes first, beside the lanes themselves.
type Order struct {
	Shares   Shares                     // what each project has had
	Waits    map[job.Lane]time.Duration // how long the first job of a lane has waited; lanes without one are absent
	AgeAfter time.Duration              // 0: no ageing
}

// band is the lane's band as it counts: one higher where the first job has waited long. One only, so that what is urgent
// stays ahead of what was never meant to be.
func (o Order) band(l job.Lane) job.Band {
	if o.AgeAfter <= 0 || o.Waits[l] < o.AgeAfter {
		return l.Band
	}
	switch l.Band {
	case job.BandLow:
		return job.BandNormal
	case job.BandNormal:
		return job.BandHigh
	}
	return l.Band
}

// aged is how long a lane has waited that counts in a higher band than its own, 0 for all others.
func (o Order) aged(l job.Lane) time.Duration {
	if o.band(l) == l.Band {
		return 0
	}
	return o.Waits[l]
}

// compare puts the lane to ask first in front: by band, then whose project has had least, then what aged into the band,
// then what needs most, then what can go nowhere else, then by name, so that the order is the same every time.
func (o Order) compare(a, b queue.LaneInfo) int {
	return cmp.Or(
		cmp.Compare(o.band(a.Lane), o.band(b.Lane)),
		cmp.Compare(o.Shares[a.Lane.Project], o.Shares[b.Lane.Project]),
		cmp.Compare(o.aged(b.Lane), o.aged(a.Lane)),
		cmp.Compare(b.Shape.Requirements.GPUs, a.Shape.Requirements.GPUs),
		cmp.Compare(bound(b.Shape.Requirements), bound(a.Shape.Requirements)),
		cmp.Compare(a.Lane.Project, b.Lane.Project),
		cmp.Compare(a.Lane.Shape, b.Lane.Shape),
	)
}

// bound is how narrowly requirements say where a job must run.
func bound(r job.Requirements) int {
	switch {
	case len(r.GPUIDs) > 0:
		return 2
	case r.Machine != "":
		return 1
	}
	return 0
}

// Weighted is what each project has had, measured by its weight: a project of weight 2 has had half as much as one of
// weight 1 that used the same. Projects without a weight have 1.
func (s Shares) Weighted(weights map[string]float64) Shares {
	out := make(Shares, len(s))
	for project, used := range s {
		if w := weights[project]; w > 0 {
			used /= w
		}
		out[project] = used
	}
	return out
}
