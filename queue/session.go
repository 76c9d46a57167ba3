package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// renewEvery is how often a session is renewed; shorter where its TTL is short.
	renewEvery = 10 * time.Second

	// trust is the part of the TTL for which a worker believes in a session without hearing from the broker. What is
	// left of the TTL is the time in which its runs must have ended.
	trust = 0.75
)

// sessionValue is what the session's key holds, for people who look.
type sessionValue struct {
	Machine  string        `json:"machine"`
	Instance string        `json:"instance"`
	ClaimTTL time.Duration `json:"claim_ttl_ns"`
	OpenedAt time.Time     `json:"opened_at"`
}

// Session is a worker's proof of life: one key with a TTL, renewed by compare-and-set. All its claims hang on it.
//
//	open --renewed each 10 s--> open
//	open --no confirmed renewal for 0.75 ClaimTTL, or the key was taken away--> lost
//	open --Close, Detach--> ended
type Session struct {
	q       *Queue
	id      string
	machine string
	value   []byte

	mu        sync.Mutex
	rev       uint64
	confirmed moment // when the last renewal that the broker confirmed was sent
	claims    map[Ref]*Claim
	quotas    map[Ref]quotaEntry // what it has entered into the lists of projects with a limit

	boot func() time.Duration // counts on while the machine sleeps

	life   context.Context // ends when the session is lost, never otherwise
	lose   context.CancelFunc
	cancel context.CancelFunc
	done   chan struct{}
	side   sync.WaitGroup
	review chan struct{} // of the quotas, soon
	notify []*nats.Subscription
}

// OpenSession proves that this worker lives, from now until Close, Detach or the loss of the broker. instance must be
// new with every start of a worker.
func (q *Queue) OpenSession(ctx context.Context, machine, instance string) (*Session, error) {
	value, err := json.Marshal(sessionValue{Machine: machine, Instance: instance, ClaimTTL: q.opts.ClaimTTL, OpenedAt: q.now()})
	if err != nil {
		return nil, err
	}
	s := &Session{
		q: q, id: token(machine) + "." + token(instance), machine: machine, value: value,
		claims: map[Ref]*Claim{}, done: make(chan struct{}), review: make(chan struct{}, 1), boot: bootClock,
	}
	s.life, s.lose = context.WithCancel(context.Background())
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("open session %s: %w", s.id, err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	go s.renew(run)
	s.side.Go(func() { s.keepQuotas(run) })
	return s, nil
}

func (s *Session) begin(ctx context.Context) error {
	sent := s.moment()
	rev, err := s.q.casKey(ctx, BucketSessions, s.id, s.value, 0, s.q.opts.ClaimTTL)
	if errors.Is(err, errConflict) {
		return fmt.Errorf("it exists already: instances must be unique: %w", err)
	}
	if err != nil {
		return err
	}
	s.rev, s.confirmed = rev, sent
	for subject, heard := range map[string]nats.MsgHandler{prefixNotify + s.id: s.onNotice, prefixNotifyGroup + "*": s.onGroupNotice} {
		sub, err := s.q.nc.Subscribe(subject, heard)
		if err != nil {
			s.unsubscribe()
			return err
		}
		s.notify = append(s.notify, sub)
	}
	return nil
}

func (s *Session) unsubscribe() {
	for _, sub := range s.notify {
		_ = sub.Unsubscribe() // fails only when the connection is gone, and then there is nothing to end
	}
}

// ID is what records call the session.
func (s *Session) ID() string { return s.id }

// bind derives a context that ends with the session.
func (s *Session) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(ErrSessionLost) })
	return ctx, func() { stop(); cancel(nil) }
}

// Deadline is until when the session may be believed in without another word from the broker: the runs of its claims
// must be stopped then. It is on the monotonic clock, so steps of the wall clock do not matter, and it comes the nearer
// the longer the machine has slept, while that clock stood and the broker's did not.
func (s *Session) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline()
}

func (s *Session) deadline() time.Time {
	slept := max(s.boot()-s.confirmed.boot-time.Since(s.confirmed.at), 0)
	return s.confirmed.at.Add(time.Duration(trust*float64(s.q.opts.ClaimTTL)) - slept)
}

// moment is one instant on both clocks.
type moment struct {
	at   time.Time
	boot time.Duration
}

func (s *Session) moment() moment { return moment{time.Now(), s.boot()} }

// Lost is closed when the session is lost. Every run of its claims must be stopped then.
func (s *Session) Lost() <-chan struct{} { return s.life.Done() }

// IsLost reports whether Lost is closed.
func (s *Session) IsLost() bool { return s.life.Err() != nil }

// Close ends the session: its key goes at once, so nobody waits for it, unless it still holds claims, whose runs might
// live on: then it is left to its TTL.
func (s *Session) Close(ctx context.Context) error {
	s.stop()
	s.mu.Lock()
	held, rev := len(s.claims), s.rev
	s.mu.Unlock()
	if held > 0 || s.IsLost() {
		return nil
	}
	err := s.q.deleteKey(ctx, BucketSessions, s.id, rev)
	if err != nil && !errors.Is(err, errConflict) {
		return fmt.Errorf("close session %s: %w", s.id, err)
	}
	return nil
}

// Detach leaves the session to its TTL: the next worker of this store adopts its claims (Resume) within that time.
func (s *Session) Detach() { s.stop() }

func (s *Session) stop() {
	s.cancel()
	<-s.done
	s.side.Wait()
	s.unsubscribe()
}

// renew keeps the key alive until the session is stopped or lost.
func (s *Session) renew(ctx context.Context) {
	defer close(s.done)
	every := min(renewEvery, s.q.opts.ClaimTTL/5)
	pause := every
	for {
		if sleep(ctx, min(pause, time.Until(s.Deadline()))) != nil {
			return
		}
		err := s.renewOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = every
		case errors.Is(err, errConflict), !time.Now().Before(s.Deadline()):
			s.q.log.Error("session_lost", "session", s.id, "err", err)
			s.lose()
			return
		default:
			s.q.log.Warn("session_not_renewed", "session", s.id, "until", s.Deadline(), "err", err)
			pause = min(every, time.Second)
		}
	}
}

func (s *Session) renewOnce(ctx context.Context) error {
	s.mu.Lock()
	rev, until := s.rev, s.deadline()
	s.mu.Unlock()
	try, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	sent := s.moment()
	rev, err := s.q.casKey(try, BucketSessions, s.id, s.value, rev, s.q.opts.ClaimTTL)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.rev, s.confirmed = rev, sent
	s.mu.Unlock()
	return nil
}

// alive asks the leader whether a session's key still stands.
func (q *Queue) alive(ctx context.Context, session string) (bool, error) {
	if session == "" {
		return false, nil
	}
	s, err := q.getLast(ctx, "KV_"+BucketSessions, "$KV."+BucketSessions+"."+session, true)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("session %s: %w", session, err)
	}
	return !isMarker(s), nil
}

func (s *Session) add(c *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[c.ref] = c
}

func (s *Session) remove(c *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[c.ref] == c {
		delete(s.claims, c.ref)
	}
}

// notice is the body of a message on berth.notify: look at that record again.
type notice struct {
	Job string `json:"job"`
}

// onNotice passes a hint on to the claim it is about. The record is the truth: a lost hint is made good by the next
// beat of Claim.Hold, a wrong one does nothing.
func (s *Session) onNotice(m *nats.Msg) {
	var n notice
	if err := json.Unmarshal(m.Data, &n); err != nil {
		return
	}
	ref, err := ParseRef(n.Job)
	if err != nil {
		return
	}
	s.mu.Lock()
	c := s.claims[ref]
	s.mu.Unlock()
	if c != nil {
		c.hint()
	}
}

// onGroupNotice lets those who run a task of a group look at what has changed about it.
func (s *Session) onGroupNotice(m *nats.Msg) {
	number, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, prefixNotifyGroup), 10, 64)
	if err != nil {
		return
	}
	s.q.groups.forget(number)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, c := range s.claims {
		if ref.Task && ref.Number == number {
			c.hint()
		}
	}
}

func (q *Queue) notifyHolder(session string, ref Ref) error {
	body, err := json.Marshal(notice{Job: ref.String()})
	if err != nil {
		return err
	}
	return q.nc.Publish(prefixNotify+session, body)
}
