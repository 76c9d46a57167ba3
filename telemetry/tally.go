package telemetry

import (
	"math"

	"github.com/berthq/berth/job"
)

// tally is least, most and mean of what it was told, in constant memory. The mean is kept rather than the sum, so
// that a month of samples loses no digits.
type tally struct {
	n              int
	min, max, mean float64
}

func (t *tally) add(v *float64) {
	if v == nil {
		return
	}
	if t.n == 0 {
		t.min, t.max = *v, *v
	}
	t.n++
	t.min, t.max = math.Min(t.min, *v), math.Max(t.max, *v)
	t.mean += (*v - t.mean) / float64(t.n)
}

func (t *tally) stat() *job.Stat {
	if t.n == 0 {
		return nil
	}
	return &job.Stat{Min: round3(t.min), Max: round3(t.max), Mean: round3(t.mean)}
}

// counter is how far a counter has moved since it was first seen. A counter that goes back (the driver was loaded
// anew) goes on from there.
type counter struct {
	seen  bool
	last  float64
	moved float64
}

func (c *counter) add(v *float64) {
	if v == nil {
		return
	}
	if c.seen && *v > c.last {
		c.moved += *v - c.last
	}
	c.seen, c.last = true, *v
}

func (c *counter) used() *float64 {
	if !c.seen {
		return nil
	}
	moved := round3(c.moved)
	return &moved
}

func number(v *int64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v)
	return &f
}

func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
