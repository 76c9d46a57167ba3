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
	asking := p.toAsk(wants)
	known := p.survey(ctx, len(asking))
	for _, q := range asking {
		if ctx.Err() != nil {
			return arrival{}, false
		}
		select {
		case a := <-c.got:
			if c.rank[a.lane] <= q.rank {
				return a, true
			}
			c.got <- a // the lanes before its own come first; there is room, it has just left
		default:
		}
		if !q.empty && !known.empty(q) {
			if m, ok := p.probe(ctx, q.Want); ok {
				return arrival{q.Lane, m}, true
			}
			q.was = quietness{messages: known[laneSubject(q.Lane)], asked: time.Now()}
		}
		hot := p.isHot(q.Lane, q.heat)
		if hot && waiting < maxWaiting && p.stand(q.Want) {
			waiting++
			continue
		}
		p.markQuiet(q, hot)
	}
	return arrival{}, false
}

// question is a lane to ask.
type question struct {
	Want
	rank  int
	heat  heat
	was   quietness // as it was found the last time
	empty bool      // it has just shown that it is
}

// toAsk lists the lanes of which it is not known that they are empty: no pull waits there, and they were not found empty
// a moment ago, or have been announced since.
func (p *Puller) toAsk(wants []Want) []question {
	var asking []question
	now, heats := time.Now(), p.q.lanes.heats(wants)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range wants {
		if p.onLane[w.Lane] != nil {
			continue
		}
		h := heats[i]
		quiet, found := p.quiet[w.Lane]
		announced := h.rev != quiet.rev
		if found && now.Before(quiet.until) && !announced {
			continue
		}
		_, stood := p.stood[w.Lane]
		delete(p.stood, w.Lane)
		delete(p.quiet, w.Lane)
		if announced {
			quiet.asked = time.Time{}
		}
		asking = append(asking, question{Want: w, rank: i, heat: h, was: quiet, empty: stood})
	}
	return asking
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
func (p *Puller) markQuiet(q question, hot bool) {
	pause := coldSweep
	if hot {
		pause = hotSweep
	} else if due := q.heat.next(time.Now()); due > 0 {
		pause = min(pause, due)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.quiet[q.Lane]; !ok { // a status may just have set a shorter one
		q.was.until, q.was.rev = time.Now().Add(pause), q.heat.rev
		p.quiet[q.Lane] = q.was
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
