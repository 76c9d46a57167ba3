package worker

import (
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

func gpuStats(util, peakMB float64) job.GPUStats {
	return job.GPUStats{
		Utilization:  &job.CountedStat{Stat: job.Stat{Max: util, Mean: util}, Samples: 100},
		MemoryUsedMB: &job.Stat{Max: peakMB, Mean: peakMB},
	}
}

func TestReportAdvice(t *testing.T) {
	t.Parallel()
	cards := map[string]int64{"0": 24576, "1": 24576}
	for _, c := range []struct {
		name    string
		req     job.Requirements
		stats   map[string]job.GPUStats
		seconds float64
		want    string // part of the advice; "" = none
	}{
		{"well used", job.Requirements{GPUs: 1}, map[string]job.GPUStats{"0": gpuStats(95, 20000)}, 600, ""},
		{"room for two", job.Requirements{GPUs: 1}, map[string]job.GPUStats{"0": gpuStats(95, 8090)}, 600, "peak 7.9 of 24 GiB: --share shared -m 10Gi would let 2 run on a card"},
		{"shared already", job.Requirements{GPUs: 1, Share: job.Shared}, map[string]job.GPUStats{"0": gpuStats(95, 8090)}, 600, ""},
		{"too short to tell", job.Requirements{GPUs: 1}, map[string]job.GPUStats{"0": gpuStats(0, 100)}, 10, ""},
		{"never busy", job.Requirements{GPUs: 1}, map[string]job.GPUStats{"0": gpuStats(1, 20000)}, 600, "does the job use the GPU at all"},
		{"one of two idle", job.Requirements{GPUs: 2}, map[string]job.GPUStats{"0": gpuStats(90, 20000), "1": gpuStats(0, 20000)}, 600, "GPU 1 was never above 5 % busy: 1 of 2 would do"},
		{"starved", job.Requirements{GPUs: 1}, map[string]job.GPUStats{"0": gpuStats(20, 20000)}, 600, "data loading"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Report(c.req, &job.Aggregate{GPUStats: c.stats}, cards, len(c.stats), c.seconds, Usage{})
			got := strings.Join(r.Advice, "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("advice %q, want %q", got, c.want)
			}
			if want := float64(len(c.stats)) * c.seconds / 3600; r.GPUHours != want {
				t.Errorf("GPU hours %v, want %v", r.GPUHours, want)
			}
		})
	}
}

func TestReportEnergyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	joules := 1500.0
	with := job.GPUStats{EnergyJoules: &joules}
	sum := Report(job.Requirements{}, &job.Aggregate{GPUStats: map[string]job.GPUStats{"0": with, "1": with}}, nil, 2, 60, Usage{}).EnergyJoules
	if sum == nil || *sum != 3000 {
		t.Errorf("energy of two counters = %v, want 3000", sum)
	}
	if e := Report(job.Requirements{}, &job.Aggregate{GPUStats: map[string]job.GPUStats{"0": with, "1": {}}}, nil, 2, 60, Usage{}).EnergyJoules; e != nil {
		t.Errorf("energy with a card that has no counter = %v, want none", *e)
	}
}
