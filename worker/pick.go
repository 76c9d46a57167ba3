package worker

import (
	"slices"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// Room answers, for the requirements of a lane's shape, whether this machine has room now and how good a place it is:
// 0 the best, 9 the worst.
type Room func(job.Requirements) (priority int, ok bool)

// Shares is what each project has had, in GPU hours, as [SharesOf] counts them.
type Shares map[string]float64

// Pick lists the lanes to ask for a job, in order: higher bands first; within a band the project that has had least,
// then what needs most (it is the hardest to place once the small ones have filled the gaps), then by name, so that the
// order is the same every time. Only lanes with room are asked: a worker never holds a job that it cannot run.
func Pick(lanes []queue.LaneInfo, shares Shares, room Room) []queue.Want {
	return PickBy(lanes, Order{Shares: shares}, room)
}

// PickBy is Pick with all that the order may depend on.
func PickBy(lanes []queue.LaneInfo, order Order, room Room) []queue.Want {
	ordered := slices.Clone(lanes)
	slices.SortStableFunc(ordered, order.compare)
	wants := make([]queue.Want, 0, len(ordered))
	answers := map[job.ShapeID]answer{} // a shape is asked once, however many lanes have it
	for _, l := range ordered {
		got, known := answers[l.Lane.Shape]
		if !known {
			got.priority, got.ok = room(l.Shape.Requirements)
			answers[l.Lane.Shape] = got
		}
		if got.ok {
			wants = append(wants, queue.Want{Lane: l.Lane, Priority: got.priority})
		}
	}
	return wants
}

type answer struct {
	priority int
	ok       bool
}
