package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthq/berth/job"
)

// Delivery is a job off its lane, not claimed yet. Exactly one of Claim and Return ends it.
type Delivery struct {
	Lane         job.Lane
	Number       uint64
	Index        *int // of a task
	Epoch        int
	Priority     int
	QueuedAt     time.Time
	Requirements job.Requirements // effective, exact
	Job          job.Job          // read-only: its slices and maps are shared
	Record       *job.Record      // nil: the job has never been claimed, as far as is known

	q       *Queue
	session *Session
	ticket  ticket
	rev     uint64 // of Record
}

// Ref names the job.
func (d *Delivery) Ref() Ref { return refOf(d.Number, d.Index) }

// Attempts is how many runs there have been.
func (d *Delivery) Attempts() int {
	if d.Record == nil {
		return 0
	}
	return len(d.Record.Attempts)
}

// Return gives the job back to its lane, free of charge: it did not fit after all.
func (d *Delivery) Return(_ context.Context, delay time.Duration, why string) error {
	d.q.log.Debug("job_returned", "job", d.Ref().String(), "lane", laneKey(d.Lane), "delay", delay, "why", why)
	return d.ticket.giveBack(delay)
}

// admit turns an arrival into a Delivery, or deals with it and returns nil.
func (q *Queue) admit(ctx context.Context, s *Session, a arrival) *Delivery {
	t := ticket{q.nc, a.msg.Reply}
	msg, err := decodeLaneMessage(a.msg.Data)
	if err != nil {
		q.discard(ctx, a, err)
		return nil
	}
	j, err := q.Job(ctx, msg.Number)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, errGarbage):
		q.discard(ctx, a, err)
		return nil
	case err != nil:
		q.postpone(t, msg.ref(), err)
		return nil
	}
	if err := fits(j, msg, a.lane); err != nil {
		q.discard(ctx, a, err)
		return nil
	}
	d := &Delivery{
		Lane: a.lane, Number: msg.Number, Index: msg.Index, Epoch: msg.Epoch, Priority: msg.Priority,
		QueuedAt: msg.QueuedAt, Requirements: msg.Requirements, Job: *j, q: q, session: s, ticket: t,
	}
	if msg.Epoch == 1 && t.delivered() == 1 {
		return d // handed out for the first time: the claim finds out if there is a record after all
	}
	if err := d.settle(ctx, false); err != nil {
		if !isDealtWith(err) {
			q.postpone(t, d.Ref(), err)
		}
		return nil
	}
	return d
}

// postpone returns a message that could not be judged now.
func (q *Queue) postpone(t ticket, ref Ref, why error) {
	q.log.Warn("job_postponed", "job", ref.String(), "err", why)
	_ = t.giveBack(time.Second) // without it the message comes back after AckWait
}

// fits says why a lane message cannot be about this job.
func fits(j *job.Job, msg laneMessage, lane job.Lane) error {
	switch {
	case lane.Project != j.Project:
		return fmt.Errorf("the job is of project %s, the lane of %s", j.Project, lane.Project)
	case j.IsGroup() && msg.Index == nil:
		return errors.New("the job is a group, the message names no task")
	case !j.IsGroup() && msg.Index != nil:
		return errors.New("the job is no group, the message names a task")
	case msg.Index == nil:
		return nil
	}
	if _, ok := taskOf(j, msg.ref()); !ok {
		return fmt.Errorf("the group has no task %d", *msg.Index)
	}
	return nil
}

// discard takes a message off its lane that can never become a run. If it names a job that is not running or finished,
// the job ends dead with the reason: it must not wait for ever.
func (q *Queue) discard(ctx context.Context, a arrival, why error) {
	t := ticket{q.nc, a.msg.Reply}
	ref, named := namedJob(a)
	if named {
		err := q.endUnclaimed(ctx, ref, ending{state: job.Dead, reason: "Garbage", text: why.Error(), project: a.lane.Project})
		if err != nil && !errors.Is(err, ErrFinal) && !errors.Is(err, errRunning) && !errors.Is(err, ErrNotFound) {
			q.postpone(t, ref, err)
			return
		}
	}
	q.log.Warn("garbage_dropped", "lane", laneKey(a.lane), "job", ref.String(), "named", named, "bytes", len(a.msg.Data), "err", why)
	if err := t.done(ctx); err != nil {
		q.log.Debug("not_acknowledged", "err", err) // it comes again, and is dropped again
	}
}

// namedJob finds the job a broken message is about: in its body, or in the id it was published with.
func namedJob(a arrival) (Ref, bool) {
	if m, err := decodeLaneMessage(a.msg.Data); err == nil {
		return m.ref(), true
	}
	ref, _, ok := parseDispatchID(a.msg.Header.Get(headerMsgID))
	return ref, ok
}

// settle decides by the record what becomes of the delivery, and does it. nil: it may be claimed, d.Record is fresh.
// ErrForget: acknowledged. ErrHeld, ErrStepBack: returned. Anything else: nothing was done.
func (d *Delivery) settle(ctx context.Context, leader bool) error {
	for {
		rec, rev, err := d.q.records.read(ctx, d.Ref(), leader)
		if err != nil {
			return err
		}
		d.Record, d.rev = rec, rev
		switch verdict := judge(rec, d.Epoch); verdict {
		case mayClaim:
			if rec != nil {
				d.Requirements = rec.Requirements
			}
			return nil
		case mayForget:
			return d.forget(ctx)
		case tooEarly:
			if leader {
				d.q.log.Warn("epoch_unknown", "job", d.Ref().String(), "epoch", d.Epoch, "record", rec.Epoch)
				return errors.Join(ErrStepBack, d.ticket.giveBack(time.Second))
			}
			leader = true // the copy we asked may lag
		case isRunning:
			err := d.q.takeFromDead(ctx, d.Ref(), rec)
			if errors.Is(err, ErrHeld) {
				return errors.Join(ErrHeld, d.ticket.giveBack(d.q.opts.AckWait/2))
			}
			if err != nil {
				return err
			}
			leader = true // look at what it has become
		}
	}
}

// forget acknowledges a delivery that nobody needs, after making sure that what the record promises is on the wire: the
// current epoch's message, or the result.
func (d *Delivery) forget(ctx context.Context) error {
	rec := d.Record
	var err error
	switch {
	case rec.State.Final():
		err = d.q.publishEnd(ctx, d.Ref(), rec, "forget")
	case rec.State == job.Queued && rec.Cancel != nil:
		err = d.q.endUnclaimed(ctx, d.Ref(), ending{state: job.Cancelled, by: rec.Cancel})
	case rec.State == job.Queued && d.Epoch < rec.Epoch && !rec.Waiting:
		err = d.q.dispatch(ctx, d.q.parcelFor(&d.Job, d.Ref(), rec))
	}
	if err != nil && !errors.Is(err, ErrFinal) {
		return err
	}
	return d.acknowledge(ctx)
}

// acknowledge takes a delivery off its lane that needs no run.
func (d *Delivery) acknowledge(ctx context.Context) error {
	if err := d.ticket.done(ctx); err != nil {
		d.q.log.Debug("not_acknowledged", "job", d.Ref().String(), "err", err) // it comes again, and is forgotten again
	}
	return ErrForget
}
