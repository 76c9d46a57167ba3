package estimator

import (
	"testing"

	"github.com/berthq/berth/job"
)

func sawMB(peaks ...float64) *job.Aggregate {
	a := &job.Aggregate{GPUStats: map[string]job.GPUStats{}}
	for i, p := range peaks {
		a.GPUStats[string(rune('0'+i))] = job.GPUStats{MemoryUsedMB: &job.Stat{Max: p}}
	}
	return a
}

func TestAfterOOM(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		had       int64
		seen      *job.Aggregate
		card, get int64
	}{
		{"a quarter more than was asked for", 8000, nil, 0, 10240},
		{"a quarter more than was seen", 8000, sawMB(11000), 81920, 13824},
		{"the fullest GPU counts", 8000, sawMB(4000, 12000), 81920, 15360},
		{"at least 1 GiB", 1000, nil, 81920, 2048},
		{"bounded by the largest card", 20000, sawMB(24000), 24564, 24564},
		{"never less than it had", 30000, nil, 24564, 30000},
		{"nothing promised, nothing seen", 0, nil, 81920, 1024},
		{"nothing promised, all of the card seen", 0, sawMB(24000), 81920, 30208},
		{"a reading that is no memory", 8000, sawMB(-5), 81920, 10240},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			used := job.Requirements{GPUs: 2, GPUMemoryMB: c.had, Why: "x", Method: "autotuner"}
			got := AfterOOM(used, c.seen, c.card)
			if got.GPUMemoryMB != c.get {
				t.Errorf("%d MiB, want %d", got.GPUMemoryMB, c.get)
			}
			if got.GPUs != 2 || got.Method != "autotuner" || got.Why == "x" {
				t.Errorf("only memory and reason change: %+v", got)
			}
		})
	}
	if got := AfterOOM(job.Requirements{}, sawMB(9000), 80000); got.GPUMemoryMB != 0 {
		t.Errorf("a CPU job: %+v", got)
	}
}

func TestAfterSuccess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		asked, had int64
		seen       *job.Aggregate
		want       int64
	}{
		{"little was used: as it was asked for", 8000, 10240, sawMB(3000), 8000},
		{"between the two: what it used and a quarter", 8000, 16384, sawMB(9000), 11264},
		{"all of it was needed: it is kept", 8000, 10240, sawMB(9900), 10240},
		{"nothing was seen: it is kept", 8000, 10240, nil, 10240},
		{"it was never raised", 8000, 8000, sawMB(7900), 8000},
		{"nothing had been asked for", 0, 30208, sawMB(4000), 5120},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked, had := job.Requirements{GPUs: 1, GPUMemoryMB: c.asked}, job.Requirements{GPUs: 1, GPUMemoryMB: c.had}
			if got := AfterSuccess(asked, had, c.seen); got.GPUMemoryMB != c.want || got.GPUs != 1 {
				t.Errorf("%+v, want %d MB", got, c.want)
			}
		})
	}
}
