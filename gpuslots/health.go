package gpuslots

import (
	"slices"
	"time"
)

// Quarantine takes a card out of service: its runs stay, new ones do not come. It lasts until Unquarantine.
func (p *Pool) Quarantine(uuid, why string) error {
	return p.change(uuid, func(c *card) {
		if why == "" {
			why = "no reason given"
		}
		c.quarantined = why
	})
}

// Unquarantine brings a card back. On a card in service it does nothing.
func (p *Pool) Unquarantine(uuid string) error {
	return p.change(uuid, func(c *card) {
		if c.quarantined != "" {
			c.quarantined = ""
			p.signal()
		}
	})
}

// MarkDirty says that a run which is over or about to be released has left something behind on a card. The slots it
// holds there (one if it holds none any more; the whole card if it was exclusive) stay taken until Clean.
func (p *Pool) MarkDirty(uuid, run, why string) error {
	return p.change(uuid, func(c *card) {
		d := dirt{run: run, why: why, slots: 1}
		if h := c.hold(run); h != nil {
			d.slots, d.whole = h.slots, h.exclusive
		}
		c.dirty = slices.DeleteFunc(c.dirty, func(other dirt) bool {
			if other.run == run {
				d.slots, d.whole = max(d.slots, other.slots), d.whole || other.whole
			}
			return other.run == run
		})
		c.dirty = append(c.dirty, d)
	})
}

// Clean says that nothing of the run is left on the card; an empty run means all runs.
func (p *Pool) Clean(uuid, run string) error {
	return p.change(uuid, func(c *card) {
		before := len(c.dirty)
		c.dirty = slices.DeleteFunc(c.dirty, func(d dirt) bool { return run == "" || d.run == run })
		if len(c.dirty) < before {
			p.signal()
		}
	})
}

// Shrink gives out one slot of the card less until then, after a run on it ran out of memory. Several add up; one slot
// always stays. It heals by itself.
func (p *Pool) Shrink(uuid string, until time.Time) error {
	now := p.opts.Now()
	return p.change(uuid, func(c *card) {
		c.shrinks = slices.DeleteFunc(c.shrinks, func(t time.Time) bool { return !t.After(now) })
		if until.After(now) && len(c.shrinks) < c.slots-1 {
			c.shrinks = append(c.shrinks, until)
		}
	})
}
