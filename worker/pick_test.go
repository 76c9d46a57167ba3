package worker

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func laneOf(band job.Band, shape job.ShapeID, project string, gpus int) queue.LaneInfo {
	return queue.LaneInfo{
		Lane:  job.Lane{Band: band, Shape: shape, Project: project},
		Shape: job.Shape{ID: shape, Requirements: job.Requirements{GPUs: gpus}},
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	one, four, eight := laneOf(job.BandNormal, "one", "lab", 1), laneOf(job.BandNormal, "four", "lab", 4), laneOf(job.BandHigh, "eight", "lab", 8)
	other := laneOf(job.BandNormal, "one", "other", 1)
	upTo := func(free int) Room {
		return func(r job.Requirements) (int, bool) { return 9 - r.GPUs, r.GPUs <= free }
	}
	for _, c := range []struct {
		name string
		free int
		use  Shares
		want []queue.Want
	}{
		{"all", 8, nil, []queue.Want{{Lane: eight.Lane, Priority: 1}, {Lane: four.Lane, Priority: 5}, {Lane: one.Lane, Priority: 8}, {Lane: other.Lane, Priority: 8}}},
		{"only what fits", 1, nil, []queue.Want{{Lane: one.Lane, Priority: 8}, {Lane: other.Lane, Priority: 8}}},
		{"who has had least first", 1, Shares{"lab": 3, "other": 1}, []queue.Want{{Lane: other.Lane, Priority: 8}, {Lane: one.Lane, Priority: 8}}},
		{"the band beats the share", 8, Shares{"lab": 30}, []queue.Want{{Lane: eight.Lane, Priority: 1}, {Lane: other.Lane, Priority: 8}, {Lane: four.Lane, Priority: 5}, {Lane: one.Lane, Priority: 8}}},
		{"full", 0, nil, []queue.Want{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Pick([]queue.LaneInfo{one, other, eight, four}, c.use, upTo(c.free))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("Pick (-want +got):\n%s", d)
			}
		})
	}
}

func TestPickAsksForRoomOncePerShape(t *testing.T) {
	t.Parallel()
	asked := 0
	Pick([]queue.LaneInfo{laneOf(job.BandHigh, "one", "a", 1), laneOf(job.BandLow, "one", "a", 1), laneOf(job.BandLow, "one", "b", 1)}, nil,
		func(job.Requirements) (int, bool) { asked++; return 0, true })
	if asked != 1 {
		t.Errorf("asked %d times for one shape", asked)
	}
}
