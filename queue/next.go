package queue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
)

// Next waits for a job on one of the lanes, the first of wants before the others where several have one, and returns it
// unclaimed. Messages that need no worker (finished, cancelled, of an older epoch, held elsewhere, garbage) are dealt with
// here, or at the latest by Claim. One Next at a time. When ctx ends the waiting pulls stand on; what they bring goes
// back at once until the next Next. A job that is in hand when ctx ends is returned all the same.
func (p *Puller) Next(ctx context.Context, wants []Want) (*Delivery, error) {
	for {
		a, err := p.next(ctx, wants)
		if err != nil {
			return nil, err
		}
		// What has been taken in hand is dealt with to the end, whatever becomes of the wish for more.
		hand, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitTimeout)
		d := p.q.admit(hand, p.session, a)
		cancel()
		if d != nil {
			return d, nil
		}
	}
}

// admitTimeout bounds the dealing with one message; after it the message comes back by itself.
const admitTimeout = 10 * time.Second

func (p *Puller) next(ctx context.Context, wants []Want) (arrival, error) {
	c, err := p.enter(wants)
	if err != nil {
		return arrival{}, err
	}
	defer p.leave(c)
	for {
		changed := p.q.LanesChanged()
		if a, ok := p.sweep(ctx, c, wants); ok {
			return p.best(c, a), nil
		}
		timer := time.NewTimer(p.untilDue())
		select {
		case <-ctx.Done():
			timer.Stop()
			return arrival{}, ctx.Err()
		case <-p.session.Lost():
			timer.Stop()
			return arrival{}, ErrSessionLost
		case a := <-c.got:
			timer.Stop()
			return p.best(c, a), nil
		case <-c.wake:
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (p *Puller) enter(wants []Want) (*caller, error) {
	c := &caller{rank: make(map[job.Lane]int, len(wants)), got: make(chan arrival, 256), wake: make(chan struct{}, 1)}
	for i, w := range wants {
		c.rank[w.Lane] = i
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	p.caller = c
	return c, nil
}

// leave ends a Next; what came for it and was not taken goes back.
func (p *Puller) leave(c *caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caller = nil
	for {
		select {
		case a := <-c.got:
			p.giveBack(a)
		default:
			return
		}
	}
}

// best compares a with everything that has arrived meanwhile, takes the first by rank and returns the rest.
func (p *Puller) best(c *caller, a arrival) arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case other := <-c.got:
			if c.rank[other.lane] < c.rank[a.lane] {
				a, other = other, a
			}
			p.giveBack(other)
		default:
			p.hot[a.lane] = time.Now()
			return a
		}
	}
}

// sweep asks the lanes in order, all but those where a waiting pull says that they are empty, and leaves a waiting pull
// on each hot one that it finds empty. A job on a better lane that arrives meanwhile ends it.
func (p *Puller) sweep(ctx context.Context, c *caller, wants []Want) (arrival, bool) {
	p.giveUpLate()
	waiting := p.waiting()
	for i, w := range wants {
		if ctx.Err() != nil {
			return arrival{}, false
		}
		select {
		case a := <-c.got:
			if c.rank[a.lane] <= i {
				return a, true
			}
			c.got <- a // the lanes before its own come first; there is room, it has just left
		default:
		}
		h, skip := p.skip(w.Lane)
		if skip {
			continue
		}
		m, ok := p.probe(ctx, w)
		if ok {
			return arrival{w.Lane, m}, true
		}
		hot := p.isHot(w.Lane, h)
		if hot && waiting < maxWaiting && p.stand(w) {
			waiting++
			continue
		}
		p.markQuiet(w.Lane, h, hot)
	}
	return arrival{}, false
}

// skip reports whether the lane need not be asked: a pull waits there, or it was found empty a moment ago and has not
// been announced since.
func (p *Puller) skip(lane job.Lane) (h heat, skip bool) {
	h, _ = p.q.lanes.heat(lane)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onLane[lane] != nil {
		return h, true
	}
	quiet, ok := p.quiet[lane]
	if ok && time.Now().Before(quiet.until) && h.rev == quiet.rev {
		return h, true
	}
	delete(p.quiet, lane)
	return h, false
}

// isHot reports whether the lane is worth a waiting pull: it got a job lately or is about to.
func (p *Puller) isHot(lane job.Lane, h heat) bool {
	if h.hot(time.Now()) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	got, ok := p.hot[lane]
	return ok && time.Since(got) < hotFor
}

// markQuiet leaves a lane alone for a while, or until it is due if something is scheduled on it.
func (p *Puller) markQuiet(lane job.Lane, h heat, hot bool) {
	pause := coldSweep
	if hot {
		pause = hotSweep
	} else if due := h.next(time.Now()); due > 0 {
		pause = min(pause, due)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.quiet[lane]; !ok { // a status may just have set a shorter one
		p.quiet[lane] = quietness{until: time.Now().Add(pause), rev: h.rev}
	}
}

// probe asks for a job that is there now. A lane whose consumer is gone gets it back.
func (p *Puller) probe(ctx context.Context, w Want) (*nats.Msg, bool) {
	m := p.probeOnce(ctx, w)
	if m == nil || !isStatus(m) {
		return m, m != nil
	}
	if m.Header.Get(headerStatus) != "503" {
		return nil, false
	}
	try, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if err := p.q.createConsumer(try, w.Lane); err != nil {
		p.q.log.Warn("lane_not_served", "lane", laneKey(w.Lane), "err", err)
		return nil, false
	}
	m = p.probeOnce(ctx, w)
	return m, m != nil && !isStatus(m)
}

// probeOnce returns the broker's answer, nil when there is none in time. Even then the job may still come: it is taken
// for an arrival like any other.
func (p *Puller) probeOnce(ctx context.Context, w Want) *nats.Msg {
	answer := make(chan *nats.Msg, 1)
	req, err := p.ask(w, answer)
	if err != nil {
		return nil
	}
	timer := time.NewTimer(probeWait)
	defer timer.Stop()
	select {
	case m := <-answer:
		return m
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(req)
	select {
	case m := <-answer: // it came between the two
		return m
	default:
		return nil
	}
}

// stand leaves a waiting pull.
func (p *Puller) stand(w Want) bool {
	_, err := p.ask(w, nil)
	return err == nil
}

func (p *Puller) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pulls)
}

// giveUpLate forgets the pulls whose answer is overdue.
func (p *Puller) giveUpLate() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, req := range p.pulls {
		if now.After(req.deadline) {
			p.forget(req)
		}
	}
}

// untilDue is how long nothing needs to be done unless something arrives.
func (p *Puller) untilDue() time.Duration {
	now := time.Now()
	due := now.Add(coldSweep)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, req := range p.pulls {
		if req.deadline.Before(due) {
			due = req.deadline
		}
	}
	for _, s := range p.quiet {
		if s.until.After(now) && s.until.Before(due) {
			due = s.until
		}
	}
	return max(due.Sub(now), time.Millisecond)
}
