package gpuslots

import (
	"time"

	"github.com/berthq/berth/telemetry"
)

// Stray is a process of a run of ours on a GPU which that run does not hold.
type Stray struct {
	Run      string `json:"run"`
	PID      int    `json:"pid"`
	MemoryMB *int64 `json:"memory_mb,omitempty"`
	// Elsewhere: the run holds other GPUs, so it has come to the wrong one. Otherwise it is over, and this is left of it.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Observe takes a snapshot into the books. A snapshot older than the last one is left aside. Devices that are not
// the pool's are nobody's business here; one of the pool's that the snapshot does not show gets no work until it is
// seen again.
func (p *Pool) Observe(snap telemetry.Snapshot, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if snap.At.Before(p.observedAt) {
		return
	}
	p.observedAt, p.observed = snap.At, true
	p.health, p.healthText = snap.Health, snap.Err
	readings := make(map[string]telemetry.Reading, len(snap.Readings))
	for _, r := range snap.Readings {
		readings[r.UUID] = r
	}
	better := false
	for _, c := range p.cards {
		if r, there := readings[c.device.UUID]; there {
			p.enter(c, r, snap.At)
		} else if snap.Health == "" || snap.Health == telemetry.HealthOK {
			c.unread = "it is not in the last reading"
		}
		news := p.digest(c, now)
		better = better || news.betterThan(c.said)
		c.said = news
	}
	if better {
		p.signal()
	}
}

// enter takes one reading into a card's books.
func (p *Pool) enter(c *card, r telemetry.Reading, at time.Time) {
	c.read, c.unread, c.fault = true, "", ""
	if err := p.probe(c, "", at); err != nil {
		c.unread = err.Error()
	}
	if r.Err != "" && r.MemoryUsedMB == nil && r.UtilizationPercent == nil {
		c.unread = r.Err
	}
	if r.Fault != nil && r.Fault.Fatal {
		c.fault = r.Fault.Text
	}
	if r.MemoryTotalMB != nil && *r.MemoryTotalMB > 0 {
		c.totalMB = *r.MemoryTotalMB
	}
	c.usedMB, c.freeMB, c.util = positive(r.MemoryUsedMB), positive(r.MemoryFreeMB), r.UtilizationPercent
	c.keptMB = 0
	if c.usedMB != nil && c.freeMB != nil {
		c.keptMB = max(0, c.totalMB-*c.usedMB-*c.freeMB)
	}
	if !at.Before(c.leftAt) {
		c.wantsRead = false
	}
	c.noteForeignExit(r, at)
	p.attribute(c, r)
}

func positive(v *int64) *int64 {
	if v == nil || *v >= 0 {
		return v
	}
	return nil
}

// noteForeignExit remembers when a foreign process was last seen to have gone.
func (c *card) noteForeignExit(r telemetry.Reading, at time.Time) {
	if !r.ProcessesKnown {
		return
	}
	now := make(map[int]bool, len(r.Processes))
	for _, proc := range r.Processes {
		now[proc.PID] = true
	}
	for _, proc := range c.foreign.procs {
		if !now[proc.PID] {
			c.foreign.leftAt = at
		}
	}
}

// attribute splits what is measured on a card into ours and others'. It is done when a reading comes, and not when a
// run leaves: what the run used stays used until a reading shows it free.
func (p *Pool) attribute(c *card, r telemetry.Reading) {
	c.last = r
	measured, complete := p.measureRuns(c, r)
	c.foreign = p.measureForeign(c, r)
	var otherKnown int64 // memory of processes that are not ours, as far as they say
	for _, proc := range r.Processes {
		if proc.MemoryMB != nil && p.holdOf(c, proc.Run) == nil {
			otherKnown += max(0, *proc.MemoryMB)
		}
	}
	switch {
	case c.usedMB == nil:
		c.otherMB = otherKnown
	case complete:
		c.otherMB = max(0, *c.usedMB-measured)
		c.baseMB = c.otherMB
	default:
		// What our runs use cannot be told apart. Take it that they use what they promised, and that the others
		// use no less than when it was last known.
		var promised int64
		for _, h := range append(append([]*hold(nil), c.holds...), c.peers...) {
			promised += max(h.promiseMB, h.shareMB)
		}
		c.baseMB = min(c.baseMB, *c.usedMB)
		c.otherMB = max(c.baseMB, otherKnown, *c.usedMB-promised)
	}
	c.leftMB = max(0, c.otherMB-otherKnown)
}

// measureRuns notes what each hold is measured to use, and finds the strays. complete: every run's use is known.
func (p *Pool) measureRuns(c *card, r telemetry.Reading) (sum int64, complete bool) {
	complete = true
	c.strays = nil
	all := append(append([]*hold(nil), c.holds...), c.peers...)
	for _, h := range all {
		h.measured = nil
		if r.ProcessesKnown {
			h.measured = new(int64)
		} else {
			complete = false
		}
	}
	for _, proc := range r.Processes {
		if proc.Foreign() {
			continue
		}
		h := p.holdOf(c, proc.Run)
		if h == nil {
			_, elsewhere := p.held[proc.Run]
			c.strays = append(c.strays, Stray{Run: proc.Run, PID: proc.PID, MemoryMB: proc.MemoryMB, Elsewhere: elsewhere})
			continue
		}
		switch {
		case proc.MemoryMB == nil:
			h.measured, complete = nil, false
		case h.measured != nil:
			*h.measured += max(0, *proc.MemoryMB)
		}
	}
	for _, h := range all {
		if h.measured != nil {
			sum += *h.measured
		}
	}
	return sum, complete
}

// holdOf is the run's hold on the card, its own or another worker's.
func (p *Pool) holdOf(c *card, run string) *hold {
	if run == "" {
		return nil
	}
	if h := c.hold(run); h != nil {
		return h
	}
	for _, h := range c.peers {
		if h.holder == run {
			return h
		}
	}
	return nil
}

// digest is what of a card a waiting job cares about.
type digest struct {
	open    bool
	slots   int
	freeMB  int64
	foreign bool
}

func (p *Pool) digest(c *card, now time.Time) digest {
	w := wish{now: now, shared: true, slots: 1}
	var v verdict
	open := p.look(c, &w, &v)
	active, dirty := c.active()
	return digest{
		open:    open || v.why == whyExclusive || v.why == whySlots,
		slots:   c.capacity(now) - active - dirty,
		freeMB:  p.available(c, now),
		foreign: len(c.foreign.procs) > 0,
	}
}

// newsMB is how much more free memory is worth waking somebody for.
const newsMB = 64

func (d digest) betterThan(before digest) bool {
	return d.open && !before.open || d.slots > before.slots || d.freeMB >= before.freeMB+newsMB || before.foreign && !d.foreign
}
