package gpuslots_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/gpuslots"
)

func TestScore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		weights     gpuslots.Weights
		free, total int64
		util        *float64
		want        float64
	}{
		"idle and empty":     {gpuslots.DefaultWeights, 24000, 24000, ptr(0.0), 1},
		"half and half":      {gpuslots.DefaultWeights, 12000, 24000, ptr(50.0), 0.5},
		"full but idle":      {gpuslots.DefaultWeights, 0, 24000, ptr(0.0), 0.4},
		"empty but busy":     {gpuslots.DefaultWeights, 24000, 24000, ptr(100.0), 0.6},
		"other weights":      {gpuslots.Weights{Memory: 1, Idle: 3}, 0, 24000, ptr(0.0), 0.75},
		"no utilisation":     {gpuslots.DefaultWeights, 6000, 24000, nil, 0.25},
		"no memory gauge":    {gpuslots.DefaultWeights, 0, 0, ptr(25.0), 0.75},
		"nothing known":      {gpuslots.DefaultWeights, 0, 0, nil, 0},
		"gauges out of line": {gpuslots.DefaultWeights, 48000, 24000, ptr(-20.0), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.weights.Score(tc.free, tc.total, tc.util); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if got := gpuslots.ScoreGang([]float64{1, 0.5, 0}); got != 0.5 {
		t.Errorf("gang: got %v, want the mean", got)
	}
}

func TestSlotsAuto(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ cpus, gpus, want int }{{16, 4, 4}, {17, 4, 5}, {2, 8, 1}, {64, 0, 1}, {0, 2, 1}} {
		if got := gpuslots.SlotsAuto(tc.cpus, tc.gpus); got != tc.want {
			t.Errorf("%d CPUs, %d GPUs: got %d, want %d", tc.cpus, tc.gpus, got, tc.want)
		}
	}
}

func TestPullPriority(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		score     float64
		wholeLeft int
		want      int
	}{
		{1, 0, 0}, {1, 1, 1}, {1, 3, 2}, {1, 7, 3}, // fills the gap before it breaks a whole machine
		{0.7, 0, 1}, {0.4, 0, 3}, {0.1, 0, 6}, {0.1, 7, 9}, {math.NaN(), 0, 6},
	} {
		if got := gpuslots.PullPriority(tc.score, tc.wholeLeft); got != tc.want {
			t.Errorf("score %v, %d left: got %d, want %d", tc.score, tc.wholeLeft, got, tc.want)
		}
	}
}

func TestPlacementOrders(t *testing.T) {
	t.Parallel()
	cands := []gpuslots.Candidate{
		{Index: 0, Score: 0.6, FreeMB: 10000, Load: 0.50},
		{Index: 1, Score: 0.9, FreeMB: 20000, Load: 0.25},
		{Index: 2, Score: 0.9, FreeMB: 24000, Load: 0.00},
		{Index: 3, Score: 0.3, FreeMB: 5000, Load: 0.75},
		{Index: 4, Score: 1.0, FreeMB: 24000, Foreign: true},
		{Index: 5, Score: 1.0, FreeMB: 24000, Avoided: true},
	}
	for placement, want := range map[gpuslots.Placement][]int{
		gpuslots.PlaceScore:   {2, 1, 0, 3, 4, 5},
		gpuslots.PlacePack:    {3, 0, 1, 2, 4, 5},
		gpuslots.PlaceSpread:  {2, 1, 0, 3, 4, 5},
		gpuslots.PlaceBestFit: {3, 0, 1, 2, 4, 5},
	} {
		var got []int
		for range cands { // one at a time: the same order however many are asked for
			got = gpuslots.Choose(cands, len(got)+1, placement, false)
			if len(got) == 1 && got[0] != want[0] {
				t.Errorf("%s: first is %d, want %d", placement, got[0], want[0])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", placement, diff)
		}
	}
}

func TestGangPrefersBalancedMemory(t *testing.T) {
	t.Parallel()
	cands := []gpuslots.Candidate{
		{Index: 0, Score: 1.0, FreeMB: 80000},
		{Index: 1, Score: 0.9, FreeMB: 40000},
		{Index: 2, Score: 0.8, FreeMB: 36000},
		{Index: 3, Score: 0.7, FreeMB: 70000},
	}
	for name, tc := range map[string]struct {
		n      int
		insist bool
		want   []int
	}{
		"one":                   {1, true, []int{0}},
		"two: the better pair":  {2, false, []int{0, 3}},
		"three: none, the best": {3, false, []int{0, 1, 2}},
		"three, insisting":      {3, true, nil},
		"more than there are":   {5, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, gpuslots.Choose(cands, tc.n, gpuslots.PlaceScore, tc.insist)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A balanced set far down the order is found when the job insists.
func TestBalancedGangAmongMany(t *testing.T) {
	t.Parallel()
	var cands []gpuslots.Candidate
	free := int64(1)
	for i := range 30 { // each has more than twice the memory of the one before
		cands = append(cands, gpuslots.Candidate{Index: i, Score: 0.9, FreeMB: free})
		free *= 2
	}
	for i := 30; i < 200; i++ {
		cands = append(cands, gpuslots.Candidate{Index: i, Score: 0.9 - float64(i)/1000, FreeMB: free})
		free += free
		if free > 1<<58 {
			free = 1
		}
	}
	cands = append(cands, gpuslots.Candidate{Index: 998, Score: 0.1, FreeMB: 3001}, gpuslots.Candidate{Index: 999, Score: 0.1, FreeMB: 3000})
	got := gpuslots.Choose(cands, 4, gpuslots.PlaceScore, true)
	if len(got) != 4 {
		t.Fatalf("four equal cards are there, got %v", got)
	}
	least, most := cands[got[0]].FreeMB, cands[got[0]].FreeMB
	for _, i := range got {
		least, most = min(least, cands[i].FreeMB), max(most, cands[i].FreeMB)
	}
	if float64(least) < 0.8*float64(most) {
		t.Errorf("not balanced: %d to %d", least, most)
	}
}
