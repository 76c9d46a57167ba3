package gpuslots

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
)

// look says whether a card will do for the wish now, and if not, why: what cannot change first, then what is wrong
// with the card, then who is on it, then its memory.
func (p *Pool) look(c *card, w *wish) verdict {
	if v := p.never(c, w); !v.ok() {
		return v
	}
	if v := p.healthy(c); !v.ok() {
		return v
	}
	if slices.Contains(w.exclude, c.device.UUID) {
		return verdict{why: whyExcluded}
	}
	if v := p.vacant(c, w); !v.ok() {
		return v
	}
	if v := p.settled(c, w); !v.ok() {
		return v
	}
	if v := p.admits(c, w); !v.ok() {
		return v
	}
	if v := p.enoughMemory(c, w); !v.ok() {
		return v
	}
	if p.opts.MinScore > 0 {
		if s := p.score(c, w.now); s < p.opts.MinScore {
			return verdict{why: whyScore, x: s, y: p.opts.MinScore}
		}
	}
	return verdict{}
}

func (p *Pool) healthy(c *card) verdict {
	switch {
	case c.quarantined != "":
		return verdict{why: whyQuarantined, text: c.quarantined}
	case c.fault != "":
		return verdict{why: whyFault, text: c.fault}
	case c.unread != "":
		return verdict{why: whyUnreadable, text: c.unread}
	case p.health != "" && p.health != telemetry.HealthOK && p.observed:
		return verdict{why: whyUnreadable, text: orText(p.healthText, string(p.health))}
	case !c.read:
		return verdict{why: whyUnread}
	}
	return verdict{}
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// vacant looks at the slots. Exclusive and shared runs never meet on a card.
func (p *Pool) vacant(c *card, w *wish) verdict {
	for _, s := range c.strays {
		if !s.Elsewhere {
			return verdict{why: whyStray, text: s.Run, a: int64(s.PID)}
		}
	}
	for _, peer := range c.peers {
		if peer.exclusive || !w.shared {
			return verdict{why: whyElsewhere, text: named(" (", peer.holder, ")")}
		}
	}
	if h := c.exclusive(); h != nil {
		return verdict{why: whyExclusive, text: "run " + h.holder}
	}
	for _, d := range c.dirty {
		if d.whole || !w.shared {
			return verdict{why: whyDirty, text: d.why}
		}
	}
	if !w.shared {
		if len(c.holds) > 0 {
			return verdict{why: whyShared, text: "run " + strings.Join(c.holders(), ", ")}
		}
		return verdict{}
	}
	active, dirty := c.active()
	for _, peer := range c.peers {
		active += peer.slots
	}
	capacity := c.capacity(w.now)
	if free := capacity - active - dirty; free < w.slots {
		return verdict{why: whySlots, a: int64(max(free, 0)), b: int64(w.slots), x: float64(capacity)}
	}
	return verdict{}
}

func named(before, name, after string) string {
	if name == "" {
		return ""
	}
	return before + name + after
}

// settled makes a card wait after a run has left: until a reading has seen it empty, and while much memory is on its
// way back, at most for the settle time.
func (p *Pool) settled(c *card, w *wish) verdict {
	if c.wantsRead {
		return verdict{why: whyWantsFreshReading}
	}
	if c.leftMB > hiddenSlackMB && !c.occupied() && w.now.Before(c.leftAt.Add(p.opts.Settle)) {
		return verdict{why: whyLingering, a: c.leftMB}
	}
	return verdict{}
}

// available is the memory of a card that is neither used nor promised.
func (p *Pool) available(c *card, now time.Time) int64 {
	return c.totalMB - c.keptMB - p.opts.ReserveMemoryMB - c.otherMB - c.takenMB(now, p.opts.Warmup)
}

func (p *Pool) enoughMemory(c *card, w *wish) verdict {
	need := p.promise(c, w)
	if need == 0 {
		return verdict{}
	}
	have := p.available(c, w.now)
	if have >= need {
		return verdict{}
	}
	v := verdict{why: whyMemory, a: max(have, 0), b: need}
	unseen := int64(0)
	if !c.occupied() && c.leftMB > hiddenSlackMB {
		unseen = c.leftMB
	}
	if theirs := c.foreign.memMB + unseen; have+theirs >= need && theirs > 0 {
		v.why, v.procs, v.x = whyMemoryForeign, c.foreign.procs, float64(unseen)
		v.text = fmt.Sprintf("%d MB are used by ", theirs)
	}
	return v
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
func (p *Pool) score(c *card, now time.Time) float64 {
	return p.opts.Weights.Score(max(0, p.available(c, now)), c.totalMB, c.util)
}

func (p *Pool) candidate(c *card, w *wish) Candidate {
	return Candidate{
		Index:   c.device.Index,
		Score:   p.score(c, w.now),
		FreeMB:  max(0, p.available(c, w.now)),
		Load:    c.load(),
		Avoided: slices.Contains(w.avoid, c.device.UUID),
		Foreign: p.opts.Foreign == ForeignAvoid && len(c.foreign.procs) > 0,
	}
}
