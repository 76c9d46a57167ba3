package gpuslots

import (
	"errors"
	"fmt"
	"time"
)

// probe brings what other workers of this machine hold on a card up to date. self is a holder of ours who has locks
// on it already but is not in the books yet.
func (p *Pool) probe(c *card, self string, at time.Time) error {
	if p.locks == nil {
		return nil
	}
	before := c.peers
	c.peers = nil
	if c.alone != nil {
		return nil // then nobody else is there
	}
	locks, err := p.locks.others(c.device.UUID)
	if err != nil {
		return err
	}
	for _, t := range locks {
		if t.Holder != "" && (t.Holder == self || c.hold(t.Holder) != nil) {
			continue
		}
		c.addPeer(p, t, before, at)
	}
	return nil
}

func (c *card) addPeer(p *Pool, t taken, before []*hold, at time.Time) {
	for _, h := range c.peers {
		if h.holder == t.Holder && t.Holder != "" {
			h.slots += len(t.slots)
			h.shareMB = p.share(c, h.slots)
			return
		}
	}
	h := &hold{holder: t.Holder, exclusive: t.Exclusive, slots: len(t.slots), promiseMB: max(0, t.PromiseMB), since: at, measured: new(int64)}
	if !h.exclusive {
		h.shareMB = p.share(c, h.slots)
	}
	for _, old := range before {
		if old.holder == h.holder && h.holder != "" {
			h.since, h.measured = old.since, old.measured
		}
	}
	c.peers = append(c.peers, h)
}

// lock locks the chosen cards for a holder. When somebody else was faster on one of them, nothing stays locked, that
// card's books say so, and clash is true: the caller chooses again.
func (p *Pool) lock(chosen []*card, w *wish, holder string) (locks []*gpuLock, clash bool, err error) {
	if p.locks == nil {
		return nil, false, nil
	}
	rec := record{Holder: holder, PromiseMB: w.needMB}
	for _, c := range chosen {
		slots := 0
		if w.shared {
			slots = w.slots
		}
		lock, err := p.locks.take(c.device.UUID, slots, c.slots, rec)
		if err == nil {
			locks = append(locks, lock)
			err = p.recheck(c, w, holder)
		}
		if err == nil {
			continue
		}
		err = errors.Join(append(unlockAll(locks), ignoreClash(err))...)
		if err == nil {
			p.yield(c, w)
		}
		return nil, err == nil, err
	}
	return locks, false, nil
}

func ignoreClash(err error) error {
	if errors.Is(err, ErrLocked) {
		return nil
	}
	return err
}

// recheck looks at the card again once our name stands in its locks: whoever comes at the same time sees ours or we
// see theirs, so two workers cannot both promise the last of its memory.
func (p *Pool) recheck(c *card, w *wish, holder string) error {
	if !w.shared {
		return nil
	}
	if err := p.probe(c, holder, w.now); err != nil {
		return err
	}
	if !p.look(c, w, nil) {
		return ErrLocked
	}
	return nil
}

// yield notes that a card is another worker's until the next reading.
func (p *Pool) yield(c *card, w *wish) {
	if err := p.probe(c, "", w.now); err != nil {
		c.unread = err.Error()
	}
	if p.look(c, w, nil) { // they have let go again, or not yet signed
		c.peers = append(c.peers, &hold{exclusive: true, slots: c.slots, since: w.now, measured: new(int64)})
	}
}

// relock sees to it that a restored run's GPUs are locked for it: by its own shim, or else by this process.
func (p *Pool) relock(cards []*card, s State) ([]*gpuLock, error) {
	if p.locks == nil {
		return nil, nil
	}
	var locks []*gpuLock
	for _, c := range cards {
		lock, err := p.relockOne(c, s)
		if err != nil {
			return nil, errors.Join(append([]error{err}, unlockAll(locks)...)...)
		}
		if lock != nil {
			locks = append(locks, lock)
		}
	}
	return locks, nil
}

// relockOne is nil when the shim has the lock.
func (p *Pool) relockOne(c *card, s State) (*gpuLock, error) {
	uuid := c.device.UUID
	there, err := p.locks.others(uuid)
	if err != nil {
		return nil, err
	}
	for _, t := range there {
		if t.Holder == s.Holder {
			return nil, nil
		}
	}
	rec := record{Holder: s.Holder, PromiseMB: s.Requirements.GPUMemoryMB}
	slots := s.Locks[uuid]
	if s.Requirements.IsShared() && len(slots) == 0 { // it ran without locks before
		return p.locks.take(uuid, max(1, s.Requirements.Slots), c.slots, rec)
	}
	lock, err := p.locks.takeSlots(uuid, slots, rec)
	if errors.Is(err, ErrLocked) && len(there) > 0 {
		return nil, fmt.Errorf("%w%s", err, named(" for run ", there[0].Holder, ""))
	}
	return lock, err
}
