package gpuslots

import (
	"slices"
	"time"

	"github.com/berthq/berth/telemetry"
)

// look says whether a card will do for the wish now, and if not, in v (when given) why: what cannot change first, then
// what is wrong with the card, then who is on it, then its memory.
func (p *Pool) look(c *card, w *wish, v *verdict) bool {
	return p.ever(c, w, v) && p.healthy(c, v) && p.vacant(c, w, v) && p.settled(c, w, v) &&
		p.admits(c, w, v) && p.enoughMemory(c, w, v) && p.goodEnough(c, w, v)
}

func (p *Pool) healthy(c *card, v *verdict) bool {
	switch {
	case c.quarantined != "":
		return v.no(whyQuarantined, verdict{text: c.quarantined})
	case c.fault != "":
		return v.no(whyFault, verdict{text: c.fault})
	case c.unread != "":
		return v.no(whyUnreadable, verdict{text: c.unread})
	case p.health != "" && p.health != telemetry.HealthOK && p.observed:
		return v.no(whyUnreadable, verdict{text: orText(p.healthText, string(p.health))})
	case !c.read:
		return v.no(whyUnread, verdict{})
	}
	return true
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// vacant looks at the slots. Exclusive and shared runs never meet on a card.
func (p *Pool) vacant(c *card, w *wish, v *verdict) bool {
	if len(w.exclude) > 0 && slices.Contains(w.exclude, c.device.UUID) {
		return v.no(whyExcluded, verdict{})
	}
	for _, s := range c.strays {
		if !s.Elsewhere {
			return v.no(whyStray, verdict{text: s.Run, a: int64(s.PID)})
		}
	}
	for _, peer := range c.peers {
		if peer.exclusive || !w.shared {
			return v.no(whyElsewhere, verdict{text: peer.holder})
		}
	}
	if c.alone != nil {
		if v == nil {
			return false
		}
		return v.no(whyExclusive, verdict{text: c.alone.holder})
	}
	for _, d := range c.dirty {
		if d.whole || !w.shared {
			return v.no(whyDirty, verdict{text: d.why})
		}
	}
	if w.shared {
		return p.freeSlots(c, w, v)
	}
	if len(c.holds) > 0 {
		if v == nil {
			return false
		}
		return v.no(whyShared, verdict{names: c.holders()})
	}
	return true
}

func (p *Pool) freeSlots(c *card, w *wish, v *verdict) bool {
	active, dirty := c.active()
	for _, peer := range c.peers {
		active += peer.slots
	}
	capacity := c.capacity(w.now)
	if free := capacity - active - dirty; free < w.slots {
		return v.no(whySlots, verdict{a: int64(max(free, 0)), b: int64(w.slots), x: float64(capacity)})
	}
	return true
}

// settled makes a card wait after a run has left: until a reading has seen it empty, and while much memory is on its
// way back, at most for the settle time.
func (p *Pool) settled(c *card, w *wish, v *verdict) bool {
	if c.wantsRead {
		return v.no(whyWantsFreshReading, verdict{})
	}
	if c.leftMB > hiddenSlackMB && !c.occupied() && w.now.Before(c.leftAt.Add(p.opts.Settle)) {
		return v.no(whyLingering, verdict{a: c.leftMB})
	}
	return true
}

// available is the memory of a card that is neither used nor promised.
func (p *Pool) available(c *card, now time.Time) int64 {
	return c.totalMB - c.keptMB - p.opts.ReserveMemoryMB - c.otherMB - c.takenMB(now, p.opts.Warmup)
}

func (p *Pool) enoughMemory(c *card, w *wish, v *verdict) bool {
	need := p.promise(c, w)
	if need == 0 {
		return true
	}
	have := p.available(c, w.now)
	if have >= need {
		return true
	}
	unseen := int64(0)
	if !c.occupied() && c.leftMB > hiddenSlackMB {
		unseen = c.leftMB
	}
	facts := verdict{a: max(have, 0), b: need}
	if theirs := c.foreign.memMB + unseen; theirs > 0 && have+theirs >= need {
		facts.x, facts.y, facts.procs = float64(theirs), float64(unseen), c.foreign.procs
		return v.no(whyMemoryForeign, facts)
	}
	return v.no(whyMemory, facts)
}

func (p *Pool) goodEnough(c *card, w *wish, v *verdict) bool {
	if p.opts.MinScore == 0 {
		return true
	}
	if s := p.score(c, w.now); s < p.opts.MinScore {
		return v.no(whyScore, verdict{x: s, y: p.opts.MinScore})
	}
	return true
}

// promise is the memory of the card that the wish would count for from its first moment.
func (p *Pool) promise(c *card, w *wish) int64 {
	if w.needMB > 0 || !w.shared {
		return w.needMB
	}
	return p.share(c, w.slots)
}

// share is what so many slots of a card are worth in memory.
func (p *Pool) share(c *card, slots int) int64 {
	usable := max(0, c.totalMB-c.keptMB-p.opts.ReserveMemoryMB)
	return usable * int64(slots) / int64(max(c.slots, slots, 1))
}

// score counts promised memory as used: a card given to ten slow starters is not idle.
func (p *Pool) score(c *card, now time.Time) float64 { return p.scoreAt(c, p.available(c, now)) }

func (p *Pool) scoreAt(c *card, availableMB int64) float64 {
	return p.opts.Weights.Score(max(0, availableMB), c.totalMB, c.util)
}

func (p *Pool) candidate(c *card, w *wish, into *Candidate) {
	available := p.available(c, w.now)
	into.Index = c.device.Index
	into.Score = p.scoreAt(c, available)
	into.FreeMB = max(0, available)
	into.Load = c.load()
	into.Avoided = len(w.avoid) > 0 && slices.Contains(w.avoid, c.device.UUID)
	into.Preferred = len(w.prefer) > 0 && slices.Contains(w.prefer, c.device.UUID)
	into.Foreign = p.opts.Foreign == ForeignAvoid && len(c.foreign.procs) > 0
}
