package telemetry

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Series is a meter's history for charts: at most MaxPoints points per gauge and device, evenly spaced. The spacing
// doubles as the run grows. Point i is the mean from StartedAt + i*StepSeconds on, for StepSeconds.
type Series struct {
	Version     int                  `json:"version"`
	StartedAt   time.Time            `json:"started_at"`
	StepSeconds float64              `json:"step_seconds"`
	GPUs        map[string]GPUSeries `json:"gpus"` // by Device.Key, as in gpu_stats
}

// GPUSeries is one device's history. A gauge the device does not have is absent.
type GPUSeries struct {
	Name               string `json:"name"`
	UUID               string `json:"uuid"`
	Utilization        Points `json:"utilization,omitempty"`
	MemoryUsedMB       Points `json:"memory_used_mb,omitempty"`
	MemoryUsagePercent Points `json:"memory_usage_percent,omitempty"`
	TemperatureC       Points `json:"temperature_c,omitempty"`
	PowerDrawW         Points `json:"power_draw_w,omitempty"`
}

// Points are values in time order; NaN where nothing was read, null in JSON.
type Points []float64

// MarshalJSON writes at most two decimals, and null for NaN.
func (p Points) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+6*len(p))
	out = append(out, '[')
	for i, v := range p {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, math.Round(v*100)/100, 'f', -1, 64)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON is the reverse.
func (p *Points) UnmarshalJSON(data []byte) error {
	var values []*float64
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	*p = make(Points, len(values))
	for i, v := range values {
		(*p)[i] = math.NaN()
		if v != nil {
			(*p)[i] = *v
		}
	}
	return nil
}

// MaxPoints is how many points a series has at most, per gauge and device.
const MaxPoints = 300

// The gauges of a series.
const (
	gaugeUtilization = iota
	gaugeMemoryUsed
	gaugeMemoryPercent
	gaugeTemperature
	gaugePower
	gaugeCount
)

// rung is what a ladder keeps for one step and gauge.
type rung struct {
	sum float64
	n   uint32
}

// ladder keeps MaxPoints steps of each gauge and, when they are full, joins them in pairs.
type ladder struct {
	step  time.Duration
	rungs [][gaugeCount]rung
}

func (l *ladder) add(elapsed time.Duration, values [gaugeCount]*float64) {
	if elapsed < 0 {
		return
	}
	for elapsed/l.step >= MaxPoints {
		l.halve()
	}
	at := int(elapsed / l.step)
	for len(l.rungs) <= at {
		l.rungs = append(l.rungs, [gaugeCount]rung{})
	}
	for g, v := range values {
		if v != nil {
			l.rungs[at][g].sum += *v
			l.rungs[at][g].n++
		}
	}
}

func (l *ladder) halve() {
	half := (len(l.rungs) + 1) / 2
	for i := range half {
		joined := l.rungs[2*i]
		if 2*i+1 < len(l.rungs) {
			for g, r := range l.rungs[2*i+1] {
				joined[g].sum += r.sum
				joined[g].n += r.n
			}
		}
		l.rungs[i] = joined
	}
	l.rungs = l.rungs[:half]
	l.step *= 2
}

// points is nil for a gauge that was never read.
func (l *ladder) points(gauge int) Points {
	out := make(Points, len(l.rungs))
	known := false
	for i, rungs := range l.rungs {
		out[i] = math.NaN()
		if r := rungs[gauge]; r.n > 0 {
			out[i] = r.sum / float64(r.n)
			known = true
		}
	}
	if !known {
		return nil
	}
	return out
}

// Series is the history so far.
func (m *Meter) Series() Series {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Series{Version: 1, StartedAt: m.started, StepSeconds: m.interval.Seconds(), GPUs: map[string]GPUSeries{}}
	m.level()
	for _, t := range m.tracks {
		if t.key == "" {
			continue
		}
		s.StepSeconds = t.ladder.step.Seconds()
		s.GPUs[t.key] = GPUSeries{
			Name: t.name, UUID: t.uuid,
			Utilization:        t.ladder.points(gaugeUtilization),
			MemoryUsedMB:       t.ladder.points(gaugeMemoryUsed),
			MemoryUsagePercent: t.ladder.points(gaugeMemoryPercent),
			TemperatureC:       t.ladder.points(gaugeTemperature),
			PowerDrawW:         t.ladder.points(gaugePower),
		}
	}
	return s
}

// level brings all ladders to the same step: a device that was lost early has stayed behind.
func (m *Meter) level() {
	var longest time.Duration
	for _, t := range m.tracks {
		longest = max(longest, t.ladder.step)
	}
	for _, t := range m.tracks {
		for t.ladder.step < longest {
			t.ladder.halve()
		}
	}
}
