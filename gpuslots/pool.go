package gpuslots

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berthq/berth/telemetry"
)

// Pool is the books of one machine's GPUs, CPUs and host memory. It is a value without goroutines; its methods may
// be called from any number of them.
type Pool struct {
	opts  Options
	locks *lockFolder // nil: none

	mu         sync.Mutex // the only lock of the package
	cards      []*card    // by index
	byUUID     map[string]*card
	held       map[string]*Allocation // by holder
	host       host
	seq        uint64
	draining   bool
	observed   bool
	observedAt time.Time
	health     telemetry.SourceHealth
	healthText string
	changed    chan struct{}

	fitting []*card // room to work in, for choose
	cands   []Candidate
	refused []cardRefusal // the same, for refusedBy
}

// New makes a pool of the devices in o. It grants no GPU before the first Observe.
func New(o Options) (*Pool, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("GPU pool: %w", err)
	}
	p := &Pool{
		opts: o, byUUID: map[string]*card{}, held: map[string]*Allocation{},
		host: newHost(o), changed: make(chan struct{}),
	}
	if o.LockDir != "" && len(o.Devices) > 0 {
		locks, err := openLockFolder(o.LockDir)
		if err != nil {
			return nil, err
		}
		p.locks = locks
	}
	cards := make([]card, len(o.Devices)) // side by side in memory: every decision goes through all of them
	for i, d := range o.Devices {
		c := &cards[i]
		*c = card{device: d, slots: o.SlotsPerGPU, totalMB: d.MemoryTotalMB}
		c.capability, c.capabilityKnown = parseCapability(d.ComputeCapability)
		p.cards = append(p.cards, c)
		p.byUUID[d.UUID] = c
	}
	slices.SortStableFunc(p.cards, func(a, b *card) int { return compareDevices(a.device, b.device) })
	return p, nil
}

// Changed is closed when there may be more room than before: a release, a reading that shows more, a card back in
// service. Take it before asking for room.
func (p *Pool) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Nudge wakes those who wait for Changed: what they would ask for has changed elsewhere.
func (p *Pool) Nudge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal()
}

func (p *Pool) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Stale reports whether a GPU should be granted only after a fresh reading: the last one is older than
// MaxReadingAge, or a run has left a card since.
func (p *Pool) Stale(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.cards) == 0 {
		return false
	}
	if !p.observed || now.Sub(p.observedAt) > MaxReadingAge {
		return true
	}
	return slices.ContainsFunc(p.cards, func(c *card) bool { return c.wantsRead })
}

// NextChange is the earliest time at which waiting alone may make room: something settles, a warm-up ends, a shrunken
// card heals. False when there is none. Readings and releases are told by Changed.
func (p *Pool) NextChange(now time.Time) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, c := range p.cards {
		consider(c.leftAt.Add(p.opts.Settle))
		consider(c.foreign.leftAt.Add(p.opts.Settle))
		for _, t := range c.shrinks {
			consider(t)
		}
		for _, h := range c.holds {
			if h.promiseMB == 0 && h.shareMB > 0 {
				consider(h.since.Add(p.opts.Warmup))
			}
		}
	}
	return next, !next.IsZero()
}

// Drain refuses everything new while it is on; what runs goes on.
func (p *Pool) Drain(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining && !on {
		defer p.signal()
	}
	p.draining = on
}

// SetFrameworks replaces what is known of frameworks, when probes have ended.
func (p *Pool) SetFrameworks(f Frameworks) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opts.Frameworks = f
	p.signal()
}

// SetNoContainers replaces what is known of the container engine: why it cannot be used, "" when it can.
func (p *Pool) SetNoContainers(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opts.NoContainers = why
	p.signal()
}

// SetLabels replaces the machine's labels.
func (p *Pool) SetLabels(labels map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opts.Labels = labels
	p.signal()
}

func (p *Pool) card(uuid string) (*card, error) {
	if c := p.byUUID[uuid]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("GPU %s: %w", uuid, ErrUnknownGPU)
}

// change does something to a card that may make room, or take it.
func (p *Pool) change(uuid string, do func(c *card)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.card(uuid)
	if err != nil {
		return err
	}
	do(c)
	c.said = p.digest(c, p.opts.Now())
	return nil
}
