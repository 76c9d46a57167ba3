package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
)

const (
	// pullExpires is how long a waiting pull stands at the broker. A new score counts from the next one on, and the pull
	// of a worker that has been cut off attracts jobs no longer than this.
	pullExpires = 10 * time.Second

	// pullGrace is how long after that an answer is still expected; without one the pull is given up (a broker that
	// crashed, or a cut connection, sends no status).
	pullGrace = time.Second

	// probeWait bounds the answer to a sweeping pull.
	probeWait = 2 * time.Second

	// hotSweep is how often a hot lane is looked at that has no waiting pull, because there are too many hot lanes.
	hotSweep = time.Second

	// busySweep is how often such a lane is asked while all its messages seem to be with others: one may have come back.
	busySweep = 5 * time.Second

	// surveyFrom is from how many lanes on one look at all lanes is cheaper than asking each.
	surveyFrom = 8

	// coldSweep is how often a quiet lane is asked without having been announced: a safety net only.
	coldSweep = 30 * time.Second

	// maxWaiting bounds the waiting pulls of one worker, however many lanes there are.
	maxWaiting = 64
)

// Want is a lane the worker could serve now, and how well: 0 is the best machine for it, 9 the worst.
type Want struct {
	Lane     job.Lane
	Priority int
}

// Puller takes jobs off lanes for one worker. On each empty lane it leaves one waiting pull, so the broker knows every
// idle machine and its score and gives a new job to the best one at once. A waiting pull is never cancelled: a job on
// its way to a cancelled one would be lost until it is handed out again. What arrives unwanted goes back at once.
type Puller struct {
	q       *Queue
	session *Session

	inbox   string
	sub     *nats.Subscription
	elected *nats.Subscription // news of lanes that have moved to another broker of the cluster
	status  chan nats.Status

	mu     sync.Mutex
	serial uint64
	pulls  map[string]*pull       // not answered yet, by the last token of their inbox: a status comes back to that
	onLane map[job.Lane]*pull     // the same by lane, at most one each: a job comes back under its lane's subject
	quiet  map[job.Lane]quietness // lanes found empty that are not worth a waiting pull now
	stood  map[job.Lane]struct{}  // lanes whose waiting pull has just run out: they are empty
	hot    map[job.Lane]time.Time // lanes that gave this worker a job
	caller *caller
	closed bool

	drained, watched chan struct{}
}

// pull is one request that the broker has not answered yet.
type pull struct {
	token    string
	lane     job.Lane
	deadline time.Time
	answer   chan *nats.Msg // of a sweeping pull; nil for a waiting one
}

// quietness says until when a lane need not be asked, unless it is announced again.
type quietness struct {
	until time.Time
	rev   uint64 // of the last announcement

	messages uint64    // that it had when it had none for us: they are with others
	asked    time.Time // when that was found out
}

// caller is the one Next in progress.
type caller struct {
	rank map[job.Lane]int
	got  chan arrival // never full: at most one message a waiting pull
	wake chan struct{}
}

// arrival is one lane message as it came.
type arrival struct {
	lane job.Lane
	msg  *nats.Msg
}

// NewPuller starts a puller whose claims will hang on the session. It ends with Close.
func (q *Queue) NewPuller(s *Session) (*Puller, error) {
	p := &Puller{
		q: q, session: s, inbox: q.nc.NewInbox(), pulls: map[string]*pull{}, onLane: map[job.Lane]*pull{},
		quiet: map[job.Lane]quietness{}, stood: map[job.Lane]struct{}{}, hot: map[job.Lane]time.Time{},
		drained: make(chan struct{}), watched: make(chan struct{}),
	}
	sub, err := q.nc.Subscribe(p.inbox+".*", p.take)
	if err != nil {
		return nil, fmt.Errorf("puller: %w", err)
	}
	sub.SetClosedHandler(func(string) { close(p.drained) })
	p.sub = sub
	if p.elected, err = q.nc.Subscribe(prefixElected+"*", p.onElected); err != nil {
		_ = sub.Unsubscribe() // fails only when the connection is gone
		return nil, fmt.Errorf("puller: %w", err)
	}
	p.status = q.nc.StatusChanged(nats.CONNECTED)
	go p.watchConnection()
	return p, nil
}

// watchConnection forgets the waiting pulls on each reconnection, until Close takes the listener away.
func (p *Puller) watchConnection() {
	defer close(p.watched)
	for range p.status {
		p.reset()
	}
}

// take books the answer to a pull and hands a job to whoever is in Next, or straight back. It is the one reader of the
// inbox and never waits for anybody.
func (p *Puller) take(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isStatus(m) {
		token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		p.takeStatus(p.pulls[token], m)
		return
	}
	a := arrival{msg: m}
	lane, ok := parseLaneSubject(m.Subject)
	if !ok {
		p.giveBack(a) // not a lane of ours; the broker would not send it
		return
	}
	a.lane = lane
	req := p.onLane[lane]
	if req != nil {
		p.forget(req)
	}
	if req != nil && req.answer != nil {
		req.answer <- m
		return
	}
	p.offer(a) // also the late answer to a pull that was given up: it is a job all the same
}

func (p *Puller) takeStatus(req *pull, m *nats.Msg) {
	if req != nil {
		p.forget(req)
	}
	switch {
	case req == nil:
	case req.answer != nil:
		req.answer <- m
	case m.Header.Get(headerStatus) == "408":
		p.stood[req.lane] = struct{}{}
	default:
		// Leadership change, consumer deleted, server shutdown: ask again, but not in a tight loop.
		h, _ := p.q.lanes.heat(req.lane)
		p.quiet[req.lane] = quietness{until: time.Now().Add(5 * pauseMin), rev: h.rev}
	}
	p.wakeCaller()
}

// offer hands an arrival to the Next in progress if it wants that lane; otherwise the job goes back at once.
func (p *Puller) offer(a arrival) {
	if p.caller != nil {
		if _, wanted := p.caller.rank[a.lane]; wanted {
			select {
			case p.caller.got <- a:
				return
			default:
			}
		}
	}
	p.giveBack(a)
}

func (p *Puller) giveBack(a arrival) {
	if err := (ticket{p.q.nc, a.msg.Reply}).giveBack(0); err != nil {
		p.q.log.Warn("surplus_not_returned", "lane", laneKey(a.lane), "err", err)
	}
}

// forget takes an answered or given-up pull off the books. p.mu is held.
func (p *Puller) forget(req *pull) {
	delete(p.pulls, req.token)
	if p.onLane[req.lane] == req {
		delete(p.onLane, req.lane)
	}
}

func (p *Puller) wakeCaller() {
	if p.caller == nil {
		return
	}
	select {
	case p.caller.wake <- struct{}{}:
	default:
	}
}

// reset forgets all waiting pulls: after a reconnection nobody knows which of them the broker still has.
func (p *Puller) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, req := range p.pulls {
		if req.answer == nil {
			p.forget(req)
		}
	}
	clear(p.quiet)
	clear(p.stood)
	p.wakeCaller()
}

// onElected forgets the waiting pull on a lane whose consumer has a new leader. Waiting pulls live in the memory of the
// leader alone: when its broker dies they are gone, and no status says so. A leader that only steps down says so itself,
// with a 409; should both arrive, or should a pull reach the new leader before the news of it comes, one pull too many
// stands there, and what it brings goes back at once.
func (p *Puller) onElected(m *nats.Msg) {
	consumer := strings.TrimPrefix(m.Subject, prefixElected)
	p.mu.Lock()
	defer p.mu.Unlock()
	for lane, req := range p.onLane {
		if req.answer == nil && laneConsumer(lane) == consumer {
			p.forget(req)
			delete(p.quiet, lane)
			p.wakeCaller()
			return
		}
	}
}

// ask sends one pull. answer is nil for a waiting one.
func (p *Puller) ask(w Want, answer chan *nats.Msg) (*pull, error) {
	type request struct {
		Batch    int           `json:"batch"`
		Expires  time.Duration `json:"expires,omitempty"`
		NoWait   bool          `json:"no_wait,omitempty"`
		Group    string        `json:"group"`
		Priority int           `json:"priority"`
	}
	r := request{Batch: 1, Group: pullGroup, Priority: min(max(w.Priority, 0), 9)}
	patience := probeWait
	if answer == nil {
		r.Expires, patience = pullExpires, pullExpires+pullGrace
	} else {
		r.NoWait = true
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.serial++
	req := &pull{
		token: strconv.FormatUint(p.serial, 36), lane: w.Lane, deadline: time.Now().Add(patience), answer: answer,
	}
	p.pulls[req.token], p.onLane[w.Lane] = req, req
	p.mu.Unlock()
	subject := "$JS.API.CONSUMER.MSG.NEXT." + StreamLanes + "." + laneConsumer(w.Lane)
	if err := p.q.nc.PublishRequest(subject, p.inbox+"."+req.token, body); err != nil {
		p.mu.Lock()
		p.forget(req)
		p.mu.Unlock()
		return nil, err
	}
	return req, nil
}

// Close takes no more jobs and returns what still arrives. Waiting pulls run out at the broker by themselves; the
// inbox is drained, so that on a single broker no job gets lost on the way to it.
func (p *Puller) Close(ctx context.Context) error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	p.q.nc.RemoveStatusListener(p.status)
	<-p.watched
	_ = p.elected.Unsubscribe() // fails only when the connection is gone
	if p.sub.Drain() != nil {
		return nil //nolint:nilerr // the connection is gone, and with it the inbox
	}
	select {
	case <-p.drained:
		return nil
	case <-ctx.Done():
		_ = p.sub.Unsubscribe() // fails only when it has ended by itself
		return ctx.Err()
	}
}

func isStatus(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get(headerStatus) != "" }
