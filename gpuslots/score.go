package gpuslots

import (
	"fmt"
	"math"
)

// Weights are how much free memory and idleness count in a score. They need not add up to 1.
type Weights struct {
	Memory float64 `json:"memory"`
	Idle   float64 `json:"idle"`
}

// DefaultWeights are the founding ones.
var DefaultWeights = Weights{Memory: 0.6, Idle: 0.4}

func (w Weights) check() error {
	for _, v := range []float64{w.Memory, w.Idle} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("weights: %v is not a weight: want numbers from 0 up, such as memory=0.6,idle=0.4", v)
		}
	}
	if w.Memory+w.Idle == 0 {
		return fmt.Errorf("weights: memory and idle cannot both be 0")
	}
	return nil
}

// Score is how good a card is, 0..1: memory * free/total + idle * (100-util)/100. A gauge the card does not have (a
// MIG device has no utilisation) leaves its part out; a card of which nothing is known scores 0.
func (w Weights) Score(freeMB, totalMB int64, util *float64) float64 {
	var sum, weight float64
	if totalMB > 0 {
		sum += w.Memory * clamp01(float64(freeMB)/float64(totalMB))
		weight += w.Memory
	}
	if util != nil {
		sum += w.Idle * clamp01((100-*util)/100)
		weight += w.Idle
	}
	if weight == 0 {
		return 0
	}
	return sum / weight
}

// ScoreGang is the score of several cards as one place: their mean.
func ScoreGang(scores []float64) float64 {
	if len(scores) == 0 {
		return 0
	}
	var sum float64
	for _, s := range scores {
		sum += s
	}
	return sum / float64(len(scores))
}

// PullPriority is the priority, 0 (best) to 9, at which a machine asks for a job, from the score of the place it
// would give and the number of GPUs that would still be wholly free there afterwards. Fewer come first, so that small
// jobs fill the gaps and whole machines stay free for wide ones; a poor place asks late however well it fits.
func PullPriority(score float64, wholeLeft int) int {
	priority := 0
	switch {
	case wholeLeft >= 4:
		priority = 3
	case wholeLeft >= 2:
		priority = 2
	case wholeLeft == 1:
		priority = 1
	}
	switch {
	case !(score >= 0.25): // NaN too
		priority += 6
	case score < 0.5:
		priority += 3
	case score < 0.75:
		priority++
	}
	return min(priority, 9)
}

func clamp01(v float64) float64 { return max(0, min(1, v)) }
