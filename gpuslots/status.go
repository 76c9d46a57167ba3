package gpuslots

import (
	"slices"
	"time"

	"github.com/berthq/berth/telemetry"
)

// CardState is what a card is doing, in one word. See the drawing in the package comment.
type CardState string

// The states of a card.
const (
	StateReady       CardState = "ready"
	StateBusy        CardState = "busy"
	StateForeign     CardState = "foreign"
	StateSettling    CardState = "settling"
	StateElsewhere   CardState = "elsewhere"
	StateDirty       CardState = "dirty"
	StateQuarantined CardState = "quarantined"
	StateUnreadable  CardState = "unreadable"
)

// Status is the pool at one instant: a copy, nobody else's to change.
type Status struct {
	At           time.Time   `json:"at"`
	ReadAt       time.Time   `json:"read_at,omitzero"` // of the last snapshot
	GPUs         []GPUStatus `json:"gpus"`
	Draining     bool        `json:"draining,omitempty"`
	CPUs         int         `json:"cpus,omitempty"`
	CPUsUsed     int         `json:"cpus_used"`
	CPUJobs      int         `json:"cpu_jobs"` // runs without a GPU
	MemoryMB     int64       `json:"memory_mb,omitempty"`
	MemoryUsedMB int64       `json:"memory_used_mb"` // promised to runs
}

// GPUStatus is one card.
type GPUStatus struct {
	UUID               string    `json:"uuid"`
	Index              int       `json:"index"`
	Key                string    `json:"key"` // "0", or "0.1" for a MIG device
	Name               string    `json:"name"`
	ComputeCapability  string    `json:"compute_capability,omitempty"`
	TotalMB            int64     `json:"total_mb"`
	FreeMB             *int64    `json:"free_mb,omitempty"` // measured
	AvailableMB        int64     `json:"available_mb"`      // neither used nor promised
	UtilizationPercent *float64  `json:"utilization_percent,omitempty"`
	Score              float64   `json:"score"`
	Slots              int       `json:"slots"`
	Active             int       `json:"active"`
	Exclusive          bool      `json:"exclusive,omitempty"`
	Holders            []string  `json:"holders,omitempty"`
	State              CardState `json:"state"`
	Why                string    `json:"why,omitempty"` // continues "GPU 0 ..." when the state is not ready

	Foreign            []telemetry.Process `json:"foreign,omitempty"`
	ForeignMB          int64               `json:"foreign_mb,omitempty"`
	ForeignUtilPercent *float64            `json:"foreign_utilization_percent,omitempty"`
	Strays             []Stray             `json:"strays,omitempty"`
	ShrunkUntil        time.Time           `json:"shrunk_until,omitzero"`
}

// Status is the whole pool now.
func (p *Pool) Status(now time.Time) Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.at(now)
	s := Status{
		At: now, ReadAt: p.observedAt, Draining: p.draining, GPUs: make([]GPUStatus, 0, len(p.cards)),
		CPUs: p.host.cpus, CPUsUsed: p.host.usedCPUs, CPUJobs: p.host.usedCPUJobs,
		MemoryMB: p.host.memoryMB, MemoryUsedMB: p.host.usedMemoryMB,
	}
	for _, c := range p.cards {
		s.GPUs = append(s.GPUs, p.cardStatus(c, now))
	}
	return s
}

func (p *Pool) cardStatus(c *card, now time.Time) GPUStatus {
	active, _ := c.active()
	g := GPUStatus{
		UUID: c.device.UUID, Index: c.device.Index, Key: c.device.Key(), Name: c.device.Name,
		ComputeCapability: c.device.ComputeCapability,
		TotalMB:           c.totalMB, FreeMB: clone(freeOf(c)), AvailableMB: max(0, p.available(c, now)),
		UtilizationPercent: clone(c.util), Score: p.score(c, now),
		Slots: c.capacity(now), Active: active, Exclusive: c.alone != nil, Holders: c.holders(),
		Foreign: slices.Clone(c.foreign.procs), ForeignMB: c.foreign.memMB, ForeignUtilPercent: clone(c.foreign.util),
		Strays: slices.Clone(c.strays),
	}
	for _, t := range c.shrinks {
		if t.After(now) && t.After(g.ShrunkUntil) {
			g.ShrunkUntil = t
		}
	}
	g.State, g.Why = p.stateOf(c, now)
	return g
}

// stateOf asks whether the smallest job would get the card: alone where nobody is, else beside those who share it.
func (p *Pool) stateOf(c *card, now time.Time) (CardState, string) {
	shares := len(c.holds) > 0 && c.alone == nil
	var v verdict
	if p.look(c, &wish{now: now, slots: 1, shared: shares}, &v) {
		return StateReady, ""
	}
	state := StateBusy
	switch v.why {
	case whyQuarantined:
		state = StateQuarantined
	case whyFault, whyUnread, whyUnreadable:
		state = StateUnreadable
	case whyDirty, whyStray:
		state = StateDirty
	case whyElsewhere:
		state = StateElsewhere
	case whyWantsFreshReading, whyLingering, whyForeignLeft:
		state = StateSettling
	case whyForeignPresent, whyForeignLoad, whyForeignMemory, whyMemoryForeign:
		state = StateForeign
	}
	return state, v.String()
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

// Stats are the founding slot statistics.
type Stats struct {
	TotalGPUs          int                 `json:"total_gpus"`
	TotalCapacity      int                 `json:"total_capacity"`
	TotalActive        int                 `json:"total_active"`
	UtilizationPercent float64             `json:"utilization_percent"`
	PerGPU             map[string]GPUStats `json:"per_gpu"` // by index
}

// GPUStats are one card's slots. The utilisation is that of the slots.
type GPUStats struct {
	Active             int     `json:"active"`
	Capacity           int     `json:"capacity"`
	UtilizationPercent float64 `json:"utilization_percent"`
}

// Stats counts the slots. An exclusive run is active on all slots of its card.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{TotalGPUs: len(p.cards), PerGPU: make(map[string]GPUStats, len(p.cards))}
	for _, c := range p.cards {
		active, _ := c.active()
		s.TotalCapacity += c.slots
		s.TotalActive += active
		s.PerGPU[c.device.Key()] = GPUStats{Active: active, Capacity: c.slots, UtilizationPercent: Percent(active, c.slots)}
	}
	s.UtilizationPercent = Percent(s.TotalActive, s.TotalCapacity)
	return s
}

// Percent is part of whole; of nothing it is 0.
func Percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
