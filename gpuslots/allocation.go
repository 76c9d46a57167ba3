package gpuslots

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

// Allocation is the place one run holds, until it is released once.
type Allocation struct {
	ID      string
	Holder  string
	Devices []telemetry.Device // best first; empty for a job without GPUs
	Scores  []float64          // of the devices when they were given, in their order
	Details []job.GPUDetail    // the devices as the result tells of them, in their order
	Method  string             // the placement that chose them
	// LockFiles are for the run's shim to inherit: as long as one copy of a descriptor is open, the GPU stays locked,
	// whatever becomes of this process. One a GPU; none without a lock folder, and for an adopted run whose shim has
	// them already.
	LockFiles []*os.File

	pool     *Pool
	req      job.Requirements
	since    time.Time
	holds    []*hold
	locks    []*gpuLock
	released bool
}

// State is an allocation as the worker remembers it across a restart.
type State struct {
	Holder       string           `json:"holder"`
	UUIDs        []string         `json:"uuids,omitempty"`
	Requirements job.Requirements `json:"requirements"`
	Since        time.Time        `json:"since"`
	Method       string           `json:"method,omitempty"`
	Details      []job.GPUDetail  `json:"details,omitempty"`
	Locks        map[string][]int `json:"locks,omitempty"` // slots by UUID
}

// State is what Restore needs.
func (a *Allocation) State() State {
	s := State{Holder: a.Holder, Requirements: a.req, Since: a.since, Method: a.Method, Details: a.Details}
	for i, d := range a.Devices {
		s.UUIDs = append(s.UUIDs, d.UUID)
		if a.holds[i].locks != nil {
			if s.Locks == nil {
				s.Locks = map[string][]int{}
			}
			s.Locks[d.UUID] = a.holds[i].locks
		}
	}
	return s
}

// UUIDs are the names of the devices, in their order.
func (a *Allocation) UUIDs() []string {
	out := make([]string, len(a.Devices))
	for i, d := range a.Devices {
		out[i] = d.UUID
	}
	return out
}

// Release gives the place back. Call it when no process of the run holds GPU memory any more, or after MarkDirty. A
// second time is ErrNotHeld.
func (a *Allocation) Release() error {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.released || p.held[a.Holder] != a {
		return fmt.Errorf("release of %s: %w", a.ID, ErrNotHeld)
	}
	a.released = true
	delete(p.held, a.Holder)
	p.host.give(&a.req)
	now := p.opts.Now()
	for i, d := range a.Devices {
		p.byUUID[d.UUID].drop(a.holds[i], now)
	}
	p.signal()
	return errors.Join(unlockAll(a.locks)...)
}

// Release gives back what a holder has. ErrNotHeld when it has nothing.
func (p *Pool) Release(holder string) error {
	p.mu.Lock()
	a := p.held[holder]
	p.mu.Unlock()
	if a == nil {
		return fmt.Errorf("release of %s: %w", holder, ErrNotHeld)
	}
	return a.Release()
}

// Restore takes a run of a worker that lived before into the books, room or no room: it runs. The lock is its
// shim's, known by the holder's name in it; where the shim let go, it is taken again. ErrUnknownGPU when a GPU is
// gone, ErrLocked when it is in other hands.
func (p *Pool) Restore(s State) (*Allocation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Holder == "" || p.held[s.Holder] != nil {
		return nil, fmt.Errorf("restore of %q: %w", s.Holder, ErrHolderBusy)
	}
	w, err := newWish(Request{Holder: s.Holder, Req: s.Requirements}, s.Since)
	if err != nil {
		return nil, fmt.Errorf("restore of %s: %w", s.Holder, err)
	}
	var cards []*card
	for _, uuid := range s.UUIDs {
		c, err := p.card(uuid)
		if err != nil {
			return nil, fmt.Errorf("restore of %s: %w", s.Holder, err)
		}
		cards = append(cards, c)
	}
	locks, err := p.relock(cards, s)
	if err != nil {
		return nil, fmt.Errorf("restore of %s: %w", s.Holder, err)
	}
	a := p.grant(Request{Holder: s.Holder, Req: s.Requirements}, &w, cards, nil)
	a.locks, a.Method = locks, s.Method
	for i, c := range cards {
		a.holds[i].locks = s.Locks[c.device.UUID]
		c.peers = slices.DeleteFunc(c.peers, func(h *hold) bool { return h.holder == s.Holder })
		if c.read {
			p.attribute(c, c.last) // its processes were strays until now
		}
	}
	for _, l := range locks {
		a.LockFiles = append(a.LockFiles, l.file)
	}
	if s.Details != nil {
		a.Details = s.Details
	}
	return a, nil
}
