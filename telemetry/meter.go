package telemetry

import (
	"sync"
	"time"

	"github.com/berthq/berth/job"
)

// Meter is one attempt's view of the sampler: least, most and mean of each gauge of its devices, the energy used,
// the faults seen, and a series for the charts. Its memory does not grow with time.
type Meter struct {
	sampler  *Sampler
	interval time.Duration
	started  time.Time

	mu      sync.Mutex
	stopped time.Time
	last    time.Time // of the last snapshot folded in
	samples int
	tracks  []*track
	faults  []Fault
	missed  int // faults beyond maxFaults
}

// maxFaults is how many faults a meter keeps: a broken card can report thousands.
const maxFaults = 32

// track is one device's part of a meter.
type track struct {
	uuid, key, name                                     string
	utilization, memoryUsed, memoryPercent, temp, power tally
	energy                                              counter
	ladder                                              ladder
}

func newMeter(s *Sampler, interval time.Duration, uuids []string) *Meter {
	m := &Meter{sampler: s, interval: interval, started: s.opts.Now()}
	for _, uuid := range uuids {
		m.tracks = append(m.tracks, &track{uuid: uuid, ladder: ladder{step: interval}})
	}
	return m
}

// wants is the period this meter would like.
func (m *Meter) wants(now time.Time, opts SamplerOptions) time.Duration {
	if now.Sub(m.started) >= opts.SlowAfter {
		return max(m.interval, opts.SlowPeriod)
	}
	return m.interval
}

// observe folds one snapshot in. Forced readings between two ticks are left out: a burst of grants elsewhere must
// not weigh on this run's means.
func (m *Meter) observe(snap Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped.IsZero() || snap.At.Before(m.started) {
		return
	}
	if !m.last.IsZero() && snap.At.Sub(m.last) < m.interval/2 {
		return
	}
	seen := false
	for _, t := range m.tracks {
		seen = t.observe(snap, snap.At.Sub(m.started)) || seen
	}
	if !seen {
		return
	}
	m.last = snap.At
	m.samples++
}

// observe reports whether the device showed anything at all.
func (t *track) observe(snap Snapshot, elapsed time.Duration) bool {
	r, ok := snap.Reading(t.uuid)
	if !ok || snap.Health == HealthSuspect || snap.Health == HealthUnreadable {
		return false
	}
	if d, ok := snap.Device(t.uuid); ok {
		t.key, t.name = d.Key(), d.Name
	}
	used := number(r.MemoryUsedMB)
	var percent *float64
	if used != nil && r.MemoryTotalMB != nil && *r.MemoryTotalMB > 0 {
		p := 100 * *used / float64(*r.MemoryTotalMB)
		percent = &p
	}
	t.utilization.add(r.UtilizationPercent)
	t.memoryUsed.add(used)
	t.memoryPercent.add(percent)
	t.temp.add(r.TemperatureC)
	t.power.add(r.PowerW)
	t.energy.add(r.EnergyJoules)
	t.ladder.add(elapsed, [gaugeCount]*float64{r.UtilizationPercent, used, percent, r.TemperatureC, r.PowerW})
	return r.UtilizationPercent != nil || used != nil || r.TemperatureC != nil || r.PowerW != nil
}

func (m *Meter) fault(f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped.IsZero() || !m.covers(f.UUID) {
		return
	}
	if len(m.faults) == maxFaults {
		m.missed++
		return
	}
	m.faults = append(m.faults, f)
}

func (m *Meter) covers(uuid string) bool {
	if uuid == "" {
		return true // names no device: every one is meant
	}
	for _, t := range m.tracks {
		if t.uuid == uuid {
			return true
		}
	}
	return false
}

// Stop ends the meter and is its result. A second Stop gives the same again.
func (m *Meter) Stop() job.Aggregate {
	m.sampler.forget(m)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped.IsZero() {
		m.stopped = m.sampler.opts.Now()
	}
	return m.aggregate(m.stopped)
}

// Aggregate is the result so far.
func (m *Meter) Aggregate() job.Aggregate {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped.IsZero() {
		return m.aggregate(m.stopped)
	}
	return m.aggregate(m.sampler.opts.Now())
}

// Faults are what happened to the meter's devices while it ran, the first 32 of them.
func (m *Meter) Faults() []Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Fault(nil), m.faults...)
}

func (m *Meter) aggregate(now time.Time) job.Aggregate {
	a := job.Aggregate{
		MonitoringDurationSeconds: round3(now.Sub(m.started).Seconds()),
		SampleCount:               m.samples,
		GPUStats:                  map[string]job.GPUStats{},
	}
	for _, t := range m.tracks {
		if t.key != "" { // never seen: its index is not known either
			a.GPUStats[t.key] = t.stats()
		}
	}
	return a
}

func (t *track) stats() job.GPUStats {
	s := job.GPUStats{
		Name: t.name, UUID: t.uuid,
		MemoryUsedMB:       t.memoryUsed.stat(),
		MemoryUsagePercent: t.memoryPercent.stat(),
		TemperatureC:       t.temp.stat(),
		PowerDrawW:         t.power.stat(),
		EnergyJoules:       t.energy.used(),
	}
	if u := t.utilization.stat(); u != nil {
		s.Utilization = &job.CountedStat{Stat: *u, Samples: t.utilization.n}
	}
	return s
}
