package report

import (
	"fmt"
	"math"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
)

// Number is what people type to mean this job: "1842", or "1842.17" for a task.
func Number(r job.Result) string {
	if r.Index != nil {
		return fmt.Sprintf("%d.%d", r.Number, *r.Index)
	}
	return fmt.Sprint(r.Number)
}

// StateColor is the colour a state has everywhere.
func StateColor(s job.State) screen.Color {
	switch s {
	case job.Succeeded:
		return screen.Green
	case job.Running:
		return screen.Cyan
	case job.Queued:
		return screen.Plain
	case job.Held, job.Cancelled, job.Expired:
		return screen.Yellow
	}
	return screen.Red
}

func devices(r job.Result) []job.GPUStats {
	if r.GPUMonitoring == nil || r.GPUMonitoring.SampleCount == 0 {
		return nil
	}
	stats := make([]job.GPUStats, 0, len(r.GPUMonitoring.GPUStats))
	for _, key := range sortedKeys(r.GPUMonitoring.GPUStats) {
		stats = append(stats, r.GPUMonitoring.GPUStats[key])
	}
	return stats
}

// meanUtilization is the mean over the devices that have the gauge, as a share.
func meanUtilization(stats []job.GPUStats) (float64, bool) {
	sum, n := 0.0, 0
	for _, s := range stats {
		if s.Utilization != nil {
			sum, n = sum+s.Utilization.Mean, n+1
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / float64(n) / 100, true
}

// peakMemory is the fullest device's peak with that device's size.
func peakMemory(stats []job.GPUStats, cardMB map[string]int64) (used, total int64, ok bool) {
	best := -1.0
	for _, s := range stats {
		size, known := cardSize(s, cardMB)
		if !known || s.MemoryUsedMB.Max/size <= best {
			continue
		}
		best = s.MemoryUsedMB.Max / size
		used, total, ok = int64(s.MemoryUsedMB.Max), int64(math.Round(size)), true
	}
	return used, total, ok
}

// cardSize is the card's memory: known, or read back from "used" and "used in percent", for the result does not carry
// it. Of a card hardly used the percentage is too coarse for that.
func cardSize(s job.GPUStats, cardMB map[string]int64) (float64, bool) {
	const coarse = 1
	switch {
	case s.MemoryUsedMB == nil:
		return 0, false
	case cardMB[s.UUID] > 0:
		return float64(cardMB[s.UUID]), true
	case s.MemoryUsagePercent == nil || s.MemoryUsagePercent.Max < coarse:
		return 0, false
	}
	return s.MemoryUsedMB.Max / s.MemoryUsagePercent.Max * 100, true
}
