package gpuslots

import (
	"cmp"
	"slices"
	"time"

	"github.com/berthq/berth/telemetry"
)

// card is the books of one GPU. All under the pool's lock.
type card struct {
	device          telemetry.Device
	capability      capability
	capabilityKnown bool

	slots   int
	holds   []*hold
	alone   *hold       // the one of holds that is exclusive
	shrinks []time.Time // one slot fewer until each of them

	dirty       []dirt
	quarantined string // why; "" = in service

	// From the last snapshot.
	read      bool
	unread    string // why there is no reading
	fault     string
	totalMB   int64
	keptMB    int64 // by the driver, for nobody
	usedMB    *int64
	freeMB    *int64
	util      *float64
	otherMB   int64 // measured, and not by runs of ours
	foreign   foreignUse
	leftMB    int64 // otherMB that nobody owns up to
	strays    []Stray
	baseMB    int64   // otherMB when it was last known for certain
	peers     []*hold // what other workers of this machine hold
	leftAt    time.Time
	wantsRead bool // a run has left since the last reading
	last      telemetry.Reading
	said      digest // as of the last Observe, to tell what is news
}

// hold is one run's part of one card.
type hold struct {
	holder    string
	exclusive bool
	slots     int   // taken; all of the card's when exclusive
	promiseMB int64 // 0 = none
	shareMB   int64 // what a shared run without a promise counts for at first
	since     time.Time
	measured  *int64 // nil: not known
	locks     []int  // records of the lock file; nil when exclusive
}

// dirt is what an ended run has left behind.
type dirt struct {
	run   string
	why   string
	slots int
	whole bool
}

// countMB is what the hold takes from others.
func (h *hold) countMB(now time.Time, warmup time.Duration) int64 {
	count := h.promiseMB
	if count == 0 && (h.measured == nil || now.Before(h.since.Add(warmup))) {
		count = h.shareMB
	}
	if h.measured != nil {
		count = max(count, *h.measured)
	}
	return count
}

// takenMB is what all holds take, those of other workers too.
func (c *card) takenMB(now time.Time, warmup time.Duration) int64 {
	var sum int64
	for _, h := range c.holds {
		sum += h.countMB(now, warmup)
	}
	for _, h := range c.peers {
		sum += h.countMB(now, warmup)
	}
	return sum
}

// capacity is the slots given out now: fewer for a while after runs ran out of memory, never none.
func (c *card) capacity(now time.Time) int {
	n := c.slots
	for _, until := range c.shrinks {
		if now.Before(until) {
			n--
		}
	}
	return max(n, 1)
}

// active is the slots held by runs of ours, dirty the slots that ended runs have not really left.
func (c *card) active() (active, dirty int) {
	for _, h := range c.holds {
		active += h.slots
	}
	for _, d := range c.dirty {
		if c.hold(d.run) == nil { // still held: counted already
			dirty += d.slots
		}
	}
	return active, dirty
}

// add puts a hold on the card.
func (c *card) add(h *hold) {
	c.holds = append(c.holds, h)
	if h.exclusive {
		c.alone = h
	}
}

func (c *card) hold(holder string) *hold {
	for _, h := range c.holds {
		if h.holder == holder {
			return h
		}
	}
	return nil
}

func (c *card) holders() []string {
	names := make([]string, len(c.holds))
	for i, h := range c.holds {
		names[i] = h.holder
	}
	return names
}

// drop takes a hold off the card. Its memory counts as used until a reading shows otherwise.
func (c *card) drop(h *hold, now time.Time) {
	c.holds = slices.DeleteFunc(c.holds, func(other *hold) bool { return other == h })
	if c.alone == h {
		c.alone = nil
	}
	c.leftAt = now
	c.wantsRead = true
}

// load is the share of the slots in use.
func (c *card) load() float64 {
	active, dirty := c.active()
	return min(1, float64(active+dirty)/float64(max(c.slots, 1)))
}

func compareDevices(a, b telemetry.Device) int {
	instance := func(d telemetry.Device) int {
		if d.Instance == nil {
			return -1
		}
		return *d.Instance
	}
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(instance(a), instance(b)), cmp.Compare(a.UUID, b.UUID))
}
