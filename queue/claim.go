package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berthq/berth/job"
)

// ControlKind says what a running job is asked to do.
type ControlKind string

// The kinds of control events.
const (
	ControlCancel  ControlKind = "cancel"
	ControlLimit   ControlKind = "limit"   // its time limit is now Limit
	ControlRelease ControlKind = "release" // of a lease: it has done its duty
	ControlExtend  ControlKind = "extend"  // of a lease: it now lasts until Until
)

// ControlEvent is a wish about a running job, taken from its record.
type ControlEvent struct {
	Kind   ControlKind
	By     string
	Reason string
	Until  *time.Time    // of ControlExtend; nil is without end
	Limit  time.Duration // of ControlLimit, counted from the start; 0 is none
}

// ClaimState is what a worker's store keeps of a claim, so that its successor can resume it.
type ClaimState struct {
	Number    uint64   `json:"number"`
	Index     *int     `json:"index,omitempty"`
	Epoch     int      `json:"epoch"`
	Attempt   int      `json:"attempt"`
	Session   string   `json:"session"`
	Lane      job.Lane `json:"lane"`
	AckReply  string   `json:"ack_reply"`
	Devices   []string `json:"devices,omitempty"`
	ClaimedAt string   `json:"claimed_at"`
}

// Claim is the right to run one job under a session and an epoch, fenced by the record. Exactly one of Finish, Requeue
// and Return ends it; when it is lost (Hold says so), none may.
type Claim struct {
	Job job.Job

	q       *Queue
	session *Session
	ticket  ticket
	lane    job.Lane
	ref     Ref
	epoch   int
	attempt int

	control chan ControlEvent
	hints   chan struct{}

	mu     sync.Mutex
	rec    job.Record
	told   bool          // of the cancel
	limit  *job.Duration // the time limit that the holder knows; nil: nobody can say what its run was told
	lease  leaseTold
	ending bool
	needs  *job.Requirements // in its next round
}

// Asked is what the job asked for when it was submitted; Record has what it needs by now.
func (c *Claim) Asked() job.Requirements { return requirementsOf(&c.Job, c.ref) }

// NeedsNext sets what the job will need if it is ever run again, in a round after this one. Finish writes it.
func (c *Claim) NeedsNext(r job.Requirements) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.needs = &r
}

// Claim writes into the record that this worker's session runs the job on these devices, as its next attempt. The
// worker holds the slots already. ErrForget, ErrHeld, ErrStepBack: the delivery has been dealt with.
//
// Once sent, the write is followed up until its fate is known, even past the end of ctx, unless the session is lost:
// a record that says "running" for a worker that does not know would keep the job from everybody.
func (d *Delivery) Claim(ctx context.Context, devices []string) (*Claim, error) {
	return d.ClaimWhile(ctx, devices, func(*Claim) {})
}

// ClaimWhile is Claim, and calls meanwhile once while the record is being written: with the claim as it will be
// returned, the same pointer, unless somebody changes the job's record first. Until then it gives no right to anything:
// a worker makes ready by it what the run will need. It is not called when the job may not start at all.
func (d *Delivery) ClaimWhile(ctx context.Context, devices []string, meanwhile func(*Claim)) (*Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, d.ticket.giveBack(0))
	}
	ctx, cancel := d.session.bind(context.WithoutCancel(ctx))
	defer cancel()
	if err := d.mayStart(ctx); err != nil {
		return nil, err
	}
	if err := d.q.enterQuota(ctx, d.session, d.Job.Project, d.Ref(), len(devices)); err != nil {
		return nil, errors.Join(ErrStepBack, err, d.ticket.giveBack(quotaAgain))
	}
	c, err := d.claim(ctx, devices, meanwhile)
	if err != nil {
		d.q.leaveQuota(ctx, d.session, d.Ref())
		return nil, err
	}
	return c, nil
}

// quotaAgain is when a job over its project's quota is looked at again by a worker that had not heard of it.
const quotaAgain = 2 * time.Second

// claim writes the record.
func (d *Delivery) claim(ctx context.Context, devices []string, meanwhile func(*Claim)) (*Claim, error) {
	for ; ; meanwhile = func(*Claim) {} {
		if d.session.IsLost() {
			return nil, errors.Join(ErrSessionLost, d.ticket.giveBack(0))
		}
		rec := d.running(devices)
		c := d.q.draft(d.session, d.ticket, d.Lane, d.Ref(), rec, d.Job)
		err := d.q.records.putWhile(ctx, d.Ref(), rec, d.rev, func() { meanwhile(c) })
		if err == nil {
			c.enter()
			return c, nil
		}
		if !errors.Is(err, errConflict) {
			return nil, errors.Join(fmt.Errorf("claim %s: %w", d.Ref(), err), d.ticket.giveBack(0))
		}
		if err := d.settle(ctx, true); err != nil {
			if !isDealtWith(err) {
				err = errors.Join(err, d.ticket.giveBack(time.Second))
			}
			return nil, err
		}
	}
}

// mayStart asks what the record of the job itself does not say: that it is not too late, and of a task, that its group
// goes on.
func (d *Delivery) mayStart(ctx context.Context) error {
	if expired, err := d.q.expire(ctx, d.Ref(), &d.Job, d.Record); err != nil || expired {
		if err != nil {
			return errors.Join(err, d.ticket.giveBack(time.Second))
		}
		return d.acknowledge(ctx)
	}
	if d.Index == nil {
		return nil
	}
	switch group := d.q.groupStanding(ctx, d.Number).state; {
	case group == job.Held:
		return errors.Join(ErrStepBack, d.ticket.giveBack(min(heldAgain, d.q.opts.AckWait)))
	case group.Final() && d.Epoch == 1: // a later epoch may be a retry of the task alone
		why := &job.Cancel{By: "berth", At: d.q.now().UTC(), Reason: "its group has ended"}
		err := d.q.endUnclaimed(ctx, d.Ref(), ending{state: job.Cancelled, by: why})
		if err != nil && !errors.Is(err, ErrFinal) {
			return errors.Join(err, d.ticket.giveBack(time.Second))
		}
		return d.acknowledge(ctx)
	}
	return nil
}

// heldAgain is when a task of a held group is looked at again.
const heldAgain = 15 * time.Second

func isDealtWith(err error) bool {
	return errors.Is(err, ErrForget) || errors.Is(err, ErrHeld) || errors.Is(err, ErrStepBack)
}

// running is the record as it will be once the claim is written.
func (d *Delivery) running(devices []string) *job.Record {
	now := d.q.now()
	rec := d.q.newRecord(&d.Job, d.Ref())
	rec.Epoch = d.Epoch
	if d.Record != nil {
		*rec = *d.Record
		rec.Attempts = slices.Clone(d.Record.Attempts)
	}
	machine := d.session.machine
	rec.State, rec.Reason, rec.ReasonText = job.Running, "", ""
	rec.Session, rec.Machine, rec.Devices, rec.NotBefore = d.session.ID(), machine, devices, nil
	rec.StartedAt, rec.EndedAt = &now, nil
	rec.Attempts = append(rec.Attempts, job.Attempt{
		Attempt: nextAttempt(rec), Epoch: rec.Epoch, Round: rec.Round, Machine: machine, Session: rec.Session,
		Devices: devices, StartedAt: now,
	})
	return rec
}

func nextAttempt(rec *job.Record) int {
	if n := len(rec.Attempts); n > 0 {
		return rec.Attempts[n-1].Attempt + 1
	}
	return 1
}

// newRecord is the record of a job that has none yet.
func (q *Queue) newRecord(j *job.Job, ref Ref) *job.Record {
	rec := &job.Record{
		Version: job.Version, JobID: j.ID, Number: ref.Number, Index: ref.IndexPtr(), Project: j.Project, User: j.User,
		Name: j.Spec.Name, State: job.Queued, Epoch: 1, Round: 1, Requirements: requirementsOf(j, ref), QueuedAt: j.SubmittedAt,
	}
	if len(j.Spec.DependsOn) > 0 && !ref.Task {
		rec.Waiting, rec.Reason, rec.ReasonText = true, reasonDependency, waitingText(j.Spec)
	}
	if j.Spec.Hold && !ref.Task {
		rec.State, rec.Reason, rec.ReasonText = job.Held, "Held", heldText(j.User, "submitted so")
	}
	return rec
}

// draft is a claim that the record does not know of yet.
func (q *Queue) draft(s *Session, t ticket, lane job.Lane, ref Ref, rec *job.Record, j job.Job) *Claim {
	c := &Claim{
		Job: j, q: q, session: s, ticket: t, lane: lane, ref: ref, epoch: rec.Epoch,
		attempt: rec.Attempts[len(rec.Attempts)-1].Attempt, rec: *rec,
		control: make(chan ControlEvent, 8), hints: make(chan struct{}, 1),
	}
	limit := effectiveLimit(&j, rec, nil)
	c.limit = &limit
	return c
}

// enter has the session look after a claim that the record knows of.
func (c *Claim) enter() {
	c.session.add(c)
	c.session.quotaClaimed(c.ref)
}

// Resume takes over a claim of this store's previous worker for the new session, while its run lives on under its shim.
// ErrClaimLost: it has been handed on; the run must be stopped.
func (q *Queue) Resume(ctx context.Context, s *Session, was ClaimState) (*Claim, error) {
	ref := refOf(was.Number, was.Index)
	ctx, cancel := s.bind(ctx)
	defer cancel()
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec != nil && owns(rec, s.ID(), was.Epoch, was.Attempt) {
			return nil, errNoChange // a second call
		}
		if rec == nil || !owns(rec, was.Session, was.Epoch, was.Attempt) {
			return nil, ErrClaimLost
		}
		rec.Session = s.ID()
		rec.Attempts[len(rec.Attempts)-1].Session = s.ID()
		return rec, nil
	})
	if err != nil {
		return nil, fmt.Errorf("resume %s: %w", ref, err)
	}
	j, err := q.jobOf(ctx, ref, rec)
	if err != nil {
		return nil, fmt.Errorf("resume %s: %w", ref, err)
	}
	c := q.draft(s, ticket{q.nc, was.AckReply}, was.Lane, ref, rec, *j)
	c.limit = nil
	c.enter()
	c.hint() // a cancel or another time limit may have come while nobody listened
	return c, nil
}

// owns reports whether the record gives the job to that session's attempt.
func owns(rec *job.Record, session string, epoch, attempt int) bool {
	n := len(rec.Attempts)
	return rec.State == job.Running && rec.Session == session && rec.Epoch == epoch &&
		n > 0 && rec.Attempts[n-1].Attempt == attempt
}

func (c *Claim) owns(rec *job.Record) bool {
	return rec != nil && owns(rec, c.session.ID(), c.epoch, c.attempt)
}

// Ref names the job.
func (c *Claim) Ref() Ref { return c.ref }

// RunID names this attempt: number[.index].attempt.
func (c *Claim) RunID() string { return c.ref.attemptToken(c.attempt) }

// Lane is where the job came from.
func (c *Claim) Lane() job.Lane { return c.lane }

// Attempt is the number of this run, 1 for the first.
func (c *Claim) Attempt() int { return c.attempt }

// Epoch is how often the job has been queued.
func (c *Claim) Epoch() int { return c.epoch }

// Record is the record as this claim last saw it.
func (c *Claim) Record() job.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rec
}

// Control delivers wishes about the job (a cancel) while Hold runs. It is never closed.
func (c *Claim) Control() <-chan ControlEvent { return c.control }

// State is what the worker's store keeps for Resume.
func (c *Claim) State() ClaimState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ClaimState{
		Number: c.ref.Number, Index: c.ref.IndexPtr(), Epoch: c.epoch, Attempt: c.attempt, Session: c.session.ID(),
		Lane: c.lane, AckReply: c.ticket.reply, Devices: c.rec.Devices,
		ClaimedAt: c.rec.Attempts[len(c.rec.Attempts)-1].StartedAt.UTC().Format(time.RFC3339Nano),
	}
}

// hint makes Hold look at the record now.
func (c *Claim) hint() {
	select {
	case c.hints <- struct{}{}:
	default:
	}
}

// Hold keeps the claim while the job runs: it tells the broker so, and watches the record for a cancel and for the loss
// of the claim. It returns nil when ctx ends, ErrClaimLost when the run must be stopped at once.
func (c *Claim) Hold(ctx context.Context) error {
	tick := time.NewTicker(max(c.q.opts.AckWait/3, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.session.Lost():
			return fmt.Errorf("%w: %w", ErrClaimLost, ErrSessionLost)
		case <-c.hints:
		case <-tick.C:
			_ = c.ticket.beat() // it only spares the broker a redelivery, which would be returned
		}
		if err := c.look(ctx); err != nil {
			return err
		}
	}
}

// look reads the record. That it cannot be read is no reason to stop: the session says how long we may go on.
func (c *Claim) look(ctx context.Context) error {
	rec, _, err := c.q.records.get(ctx, c.ref)
	if err == nil && !c.owns(rec) {
		rec, _, err = c.q.records.read(ctx, c.ref, true) // a copy may lag
	}
	if err != nil {
		c.q.log.Debug("record_not_read", "job", c.ref.String(), "err", err)
		return nil
	}
	limit := c.q.timeLimitOf(ctx, &c.Job, c.ref, rec)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return nil
	}
	if !c.owns(rec) {
		return ErrClaimLost
	}
	c.rec = *rec
	if rec.Cancel != nil && !c.told {
		c.told = true
		c.control <- ControlEvent{Kind: ControlCancel, By: rec.Cancel.By, Reason: rec.Cancel.Reason}
	}
	c.tellLimit(limit)
	c.tellLease(rec.Lease)
	return nil
}
