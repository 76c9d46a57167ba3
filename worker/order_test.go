package worker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	low, normal, high := laneOf(job.BandLow, "one", "lab", 1), laneOf(job.BandNormal, "one", "lab", 1), laneOf(job.BandHigh, "one", "lab", 1)
	other, wide := laneOf(job.BandNormal, "one", "other", 1), laneOf(job.BandNormal, "eight", "lab", 8)
	lowOther := laneOf(job.BandLow, "one", "other", 1)
	machine, gpu := laneOf(job.BandNormal, "one-m1", "lab", 1), laneOf(job.BandNormal, "one-m1-0", "lab", 1)
	machine.Shape.Requirements.Machine, gpu.Shape.Requirements.GPUIDs = "m1", []string{"GPU-0"}
	waits := func(d time.Duration, lanes ...queue.LaneInfo) map[job.Lane]time.Duration {
		m := map[job.Lane]time.Duration{}
		for _, l := range lanes {
			m[l.Lane] = d
		}
		return m
	}
	for name, c := range map[string]struct {
		order Order
		want  []queue.LaneInfo
	}{
		"band by band":                        {Order{}, []queue.LaneInfo{high, normal, low}},
		"the wide one first":                  {Order{}, []queue.LaneInfo{wide, normal, low}},
		"what can go nowhere else before it":  {Order{}, []queue.LaneInfo{wide, gpu, machine, normal, other}},
		"who has had least":                   {Order{Shares: Shares{"lab": 2, "other": 1}}, []queue.LaneInfo{high, other, wide, normal, low}},
		"by weight: 9 of weight 4 is less":    {Order{Shares: Shares{"lab": 9, "other": 3}.Weighted(map[string]float64{"lab": 4})}, []queue.LaneInfo{normal, other}},
		"by weight: half counts double":       {Order{Shares: Shares{"lab": 2, "other": 3}.Weighted(map[string]float64{"lab": 0.5})}, []queue.LaneInfo{other, normal}},
		"not yet old":                         {Order{AgeAfter: AgeAfter, Waits: waits(AgeAfter-1, low)}, []queue.LaneInfo{high, normal, low}},
		"old enough: before its new peers":    {Order{AgeAfter: AgeAfter, Waits: waits(AgeAfter, low)}, []queue.LaneInfo{high, low, wide, normal}},
		"one band only, however long":         {Order{AgeAfter: AgeAfter, Waits: waits(1000*AgeAfter, low)}, []queue.LaneInfo{high, low, normal}},
		"normal ages too":                     {Order{AgeAfter: AgeAfter, Waits: waits(AgeAfter, normal)}, []queue.LaneInfo{normal, high, low}},
		"the top band has nowhere to go":      {Order{AgeAfter: AgeAfter, Waits: waits(AgeAfter, high, normal)}, []queue.LaneInfo{normal, high, low}},
		"shares count before age":             {Order{AgeAfter: AgeAfter, Shares: Shares{"lab": 5}, Waits: waits(AgeAfter, low)}, []queue.LaneInfo{other, low, normal}},
		"of two that aged, the longer waiter": {Order{AgeAfter: AgeAfter, Waits: map[job.Lane]time.Duration{low.Lane: AgeAfter, lowOther.Lane: 2 * AgeAfter}}, []queue.LaneInfo{lowOther, low, normal}},
		"ageing can be off":                   {Order{Waits: waits(AgeAfter, low)}, []queue.LaneInfo{high, normal, low}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lanes := slices.Clone(c.want)
			rand.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
			got := PickBy(lanes, c.order, func(job.Requirements) (int, bool) { return 0, true })
			var want []queue.Want
			for _, l := range c.want {
				want = append(want, queue.Want{Lane: l.Lane})
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
