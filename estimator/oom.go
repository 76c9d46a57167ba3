package estimator

import (
	"fmt"
	"math"

	"github.com/berthq/berth/job"
)

// How a requirement grows after an out-of-memory: a quarter above what was seen or asked for, at least 1 GiB, in
// steps of 512 MiB so that retries do not open a new shape each time.
const (
	oomGrowth  = 1.25
	oomLeastMB = 1024
	oomStepMB  = 512
)

// AfterOOM is the requirement of the attempt after one that ran out of GPU memory: above what it had, above what was
// seen in use, never above maxCardMB (0: the fleet's cards are not known).
func AfterOOM(used job.Requirements, seen *job.Aggregate, maxCardMB int64) job.Requirements {
	if used.GPUs == 0 {
		return used // no GPU memory was promised; none can be raised
	}
	peak := peakMB(seen)
	base := max(used.GPUMemoryMB, peak)
	next := max(int64(math.Ceil(float64(base)*oomGrowth)), base+oomLeastMB)
	next = (next + oomStepMB - 1) / oomStepMB * oomStepMB
	out := used
	switch {
	case maxCardMB > 0 && next > maxCardMB:
		next = max(maxCardMB, used.GPUMemoryMB)
		out.Why = fmt.Sprintf("after running out of GPU memory: %d MiB per GPU, the largest card there is (had %d, %d seen in use)", next, used.GPUMemoryMB, peak)
	default:
		out.Why = fmt.Sprintf("after running out of GPU memory: %d MiB per GPU (had %d, %d seen in use)", next, used.GPUMemoryMB, peak)
	}
	out.GPUMemoryMB = next
	return out
}

// AfterSuccess is the requirement of the next round of a job that succeeded with more memory than it had asked for,
// raised after an out-of-memory: what it was seen to use and a quarter, not less than it asked for and not more than it
// had. A card filled by a neighbour, a leak since mended: what was learned then is unlearned. Unseen, it keeps what it had.
func AfterSuccess(asked, had job.Requirements, seen *job.Aggregate) job.Requirements {
	peak := peakMB(seen)
	if peak == 0 || had.GPUMemoryMB <= asked.GPUMemoryMB {
		return had
	}
	next := int64(math.Ceil(float64(peak) * oomGrowth))
	if next <= asked.GPUMemoryMB {
		return asked
	}
	out := had
	if next = (next + oomStepMB - 1) / oomStepMB * oomStepMB; next < had.GPUMemoryMB {
		out.GPUMemoryMB = next
		out.Why = fmt.Sprintf("%d MiB per GPU: it succeeded with %d in use (asked for %d, had %d after running out of memory)", next, peak, asked.GPUMemoryMB, had.GPUMemoryMB)
	}
	return out
}

// peakMB is the most any GPU of the run held.
func peakMB(seen *job.Aggregate) int64 {
	if seen == nil {
		return 0
	}
	peak := 0.0
	for _, g := range seen.GPUStats {
		if g.MemoryUsedMB != nil {
			peak = max(peak, g.MemoryUsedMB.Max)
		}
	}
	if peak > 1<<40 || math.IsNaN(peak) || peak < 0 {
		return 0
	}
	return int64(math.Ceil(peak))
}
