package bench

import (
	"math"
	"slices"
	"testing"
	"time"
)

// quantile of some durations, in milliseconds; the lower of two neighbours.
func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(d))
	return ms(sorted[int(q*float64(len(sorted)-1))])
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond is a rate.
func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

func TestQuantile(t *testing.T) {
	t.Parallel()
	d := []time.Duration{5 * time.Millisecond, time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 5} {
		if got := quantile(d, q); got != want {
			t.Errorf("quantile %v: %v ms, want %v", q, got, want)
		}
	}
	if !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("the median of nothing is a number")
	}
}
