package worker

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/berthq/berth/job"
)

// Usage is what an attempt consumed beside its GPUs, as the runner measured it. Unknown is nil.
type Usage struct {
	CPUSeconds   *float64
	PeakMemoryMB *int64
}

// Report says what the attempt cost, from its aggregate and its length, and how it could have cost less.
// gpus is how many devices it held, runSeconds how long.
func Report(req job.Requirements, agg *job.Aggregate, cardMB map[string]int64, gpus int, runSeconds float64, u Usage) *job.Report {
	r := &job.Report{GPUHours: float64(gpus) * runSeconds / 3600, CPUSeconds: u.CPUSeconds, PeakMemoryMB: u.PeakMemoryMB}
	if agg != nil {
		r.EnergyJoules = totalEnergy(agg)
		r.Advice = advice(req, agg, cardMB, runSeconds)
	}
	return r
}

// totalEnergy is the sum over the devices; nil when any of them has no counter, since a partial sum misleads.
func totalEnergy(agg *job.Aggregate) *float64 {
	if len(agg.GPUStats) == 0 {
		return nil
	}
	var sum float64
	for _, s := range agg.GPUStats {
		if s.EnergyJoules == nil {
			return nil
		}
		sum += *s.EnergyJoules
	}
	return &sum
}

// A run shorter than this says nothing about how a longer one would behave.
const adviceAfterSeconds = 60

func advice(req job.Requirements, agg *job.Aggregate, cardMB map[string]int64, runSeconds float64) []string {
	if runSeconds < adviceAfterSeconds || len(agg.GPUStats) == 0 {
		return nil
	}
	var out []string
	if s := roomAdvice(req, agg, cardMB); s != "" {
		out = append(out, s)
	}
	busiest, idle := 0.0, []string{}
	for key, s := range agg.GPUStats {
		if s.Utilization == nil {
			continue
		}
		busiest = math.Max(busiest, s.Utilization.Mean)
		if s.Utilization.Max < 5 {
			idle = append(idle, key)
		}
	}
	sort.Strings(idle)
	switch {
	case len(idle) > 0 && len(idle) == len(agg.GPUStats):
		out = append(out, "no GPU was ever above 5 % busy: does the job use the GPU at all? Without -g it runs on CPUs")
	case len(idle) > 0:
		out = append(out, fmt.Sprintf("GPU %s was never above 5 %% busy: %d of %d would do", strings.Join(idle, ", "), len(agg.GPUStats)-len(idle), len(agg.GPUStats)))
	case busiest > 0 && busiest < 30:
		out = append(out, fmt.Sprintf("the GPU was %.0f %% busy on average: look at data loading, or try a larger batch", busiest))
	}
	return out
}

// roomAdvice tells when the fullest device stayed so far under its card that two such runs fit on one.
func roomAdvice(req job.Requirements, agg *job.Aggregate, cardMB map[string]int64) string {
	var peak float64
	var card int64
	for key, s := range agg.GPUStats {
		if s.MemoryUsedMB == nil || cardMB[key] == 0 {
			return ""
		}
		if s.MemoryUsedMB.Max > peak {
			peak, card = s.MemoryUsedMB.Max, cardMB[key]
		}
	}
	if peak == 0 {
		return ""
	}
	want := int64(math.Ceil(peak * 1.15 / 1024)) // GiB, with some air
	fit := card / 1024 / want
	if req.IsShared() || fit < 2 {
		return ""
	}
	return fmt.Sprintf("peak %.1f of %.0f GiB: --share shared -m %dGi would let %d run on a card", peak/1024, float64(card)/1024, want, fit)
}
