package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berthq/berth/job"
)

// Requeue says how an attempt is tried again.
type Requeue struct {
	Delay        time.Duration     // backoff
	Why          string            // shown as the reason the job waits
	Requirements *job.Requirements // nil: as before
	Run          *job.Run          // the attempt's full figures; nil: what the attempt says
}

// Finish ends the job's round with this result. The order is the promise: the record with the result inside (from here
// on it is finished, whatever crashes), the attempt's message, the result, the acknowledgement. Whoever comes later
// publishes what the record holds. ErrClaimLost: nothing was written.
func (c *Claim) Finish(ctx context.Context, result job.Result) error {
	c.mu.Lock()
	needs := c.needs
	c.mu.Unlock()
	return c.end(ctx, "finish", 0, func(rec *job.Record) {
		if needs != nil {
			rec.Requirements = *needs
		}
		a := c.closeAttempt(rec, job.Attempt{
			Outcome: result.Outcome, Exit: result.Exit, Reason: result.Reason, Evidence: result.Evidence, EndedAt: result.EndedAt,
			Steps: result.Steps,
		})
		rec.Run = nil // the attempt's message has the figures of the result
		result.Attempt = a.Attempt
		c.q.closeRecord(&c.Job, c.ref, rec, result)
	})
}

// Requeue ends the attempt and queues the job again under the next epoch, after a delay if one is given. If a cancel has
// come it ends cancelled instead, and after too many failures of machines and GPUs dead.
func (c *Claim) Requeue(ctx context.Context, attempt job.Attempt, how Requeue) error {
	return c.end(ctx, "requeue", 0, func(rec *job.Record) {
		a := c.closeAttempt(rec, attempt)
		c.keepRun(rec, a, how.Run)
		if c.endInstead(rec) {
			return
		}
		rec.Epoch++
		rec.Near = rec.Near.Anywhere()
		rec.State, rec.Reason, rec.ReasonText = job.Queued, "", how.Why
		if how.Requirements != nil {
			rec.Requirements = *how.Requirements
		}
		if how.Delay > 0 {
			due := c.q.now().Add(how.Delay)
			rec.NotBefore, rec.Reason = &due, "Backoff"
		}
	})
}

// Return gives the job back free of charge (drain, preemption): the attempt is closed as interrupted and the message
// returns to its place on the lane.
func (c *Claim) Return(ctx context.Context, delay time.Duration, why string) error {
	return c.Interrupt(ctx, delay, why, nil)
}

// Interrupt is Return for a pipeline that has come some way: its steps stay in the record.
func (c *Claim) Interrupt(ctx context.Context, delay time.Duration, why string, steps []job.StepResult) error {
	return c.end(ctx, "return", delay, func(rec *job.Record) {
		a := c.closeAttempt(rec, job.Attempt{Outcome: job.OutcomeInterrupted, Reason: why, Steps: steps})
		c.keepRun(rec, a, nil)
		if c.endInstead(rec) {
			return
		}
		rec.State, rec.Reason, rec.ReasonText = job.Queued, "", why
		if leavePlace(rec) && delay > 0 {
			due := c.q.now().Add(delay)
			rec.NotBefore = &due
		}
	})
}

// end is the one path on which a claim ends: record, attempt message, then result or next message, acknowledgement (or,
// of a job that keeps its place, return after a delay).
func (c *Claim) end(ctx context.Context, verb string, delay time.Duration, edit func(rec *job.Record)) error {
	c.setEnding(true)
	rec, err := c.write(ctx, verb, edit)
	if err != nil {
		c.setEnding(false)
		return fmt.Errorf("%s %s: %w", verb, c.ref, err)
	}
	c.mu.Lock()
	c.rec = *rec // whoever ended it may look at what became of the job
	c.mu.Unlock()
	// From here on the claim is over. An error below means "not yet on the wire": whoever gets the message next, or the
	// janitor, makes it good.
	defer c.session.remove(c)
	c.q.leaveQuota(ctx, c.session, c.ref) // before the message goes back and this worker may get it again
	if err := c.q.keepPromises(ctx, verb, &c.Job, c.ref, rec); err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.ref, err)
	}
	if err := c.q.step(verb + ":ack"); err != nil {
		return err
	}
	if rec.State == job.Queued && rec.Epoch == c.epoch {
		return c.ticket.giveBack(delay)
	}
	if err := c.ticket.done(ctx); err != nil {
		c.q.log.Debug("not_acknowledged", "job", c.ref.String(), "err", err) // it comes again and is forgotten
	}
	return nil
}

func (c *Claim) write(ctx context.Context, verb string, edit func(rec *job.Record)) (*job.Record, error) {
	// The message of the attempt before this one lives in the record only until this write.
	if err := c.q.publishRun(ctx, c.ref, c.Record().Run); err != nil {
		return nil, err
	}
	if err := c.q.step(verb + ":cas"); err != nil {
		return nil, err
	}
	rec, err := c.q.records.change(ctx, c.ref, func(rec *job.Record) (*job.Record, error) {
		if !c.owns(rec) {
			return nil, ErrClaimLost
		}
		edit(rec)
		return rec, nil
	})
	return rec, err
}

func (c *Claim) isEnding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

func (c *Claim) setEnding(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = yes
}

// keepPromises publishes what a record that was just written promises.
func (q *Queue) keepPromises(ctx context.Context, verb string, j *job.Job, ref Ref, rec *job.Record) error {
	if err := q.step(verb + ":run"); err != nil {
		return err
	}
	if rec.State.Final() {
		return q.publishEnd(ctx, ref, rec, verb)
	}
	if err := q.publishRun(ctx, ref, rec.Run); err != nil {
		return err
	}
	last := rec.Attempts[len(rec.Attempts)-1]
	if rec.State != job.Queued || last.Epoch == rec.Epoch {
		return nil // returned: its message is still on the lane
	}
	if err := q.step(verb + ":dispatch"); err != nil {
		return err
	}
	return q.dispatch(ctx, q.parcelFor(j, ref, rec))
}

// closeAttempt writes the end of this claim's attempt and takes the holder out of the record.
func (c *Claim) closeAttempt(rec *job.Record, end job.Attempt) job.Attempt {
	rec.Attempts = slices.Clone(rec.Attempts)
	a := &rec.Attempts[len(rec.Attempts)-1]
	a.Outcome, a.Exit, a.Reason, a.Evidence, a.EndedAt = end.Outcome, end.Exit, end.Reason, end.Evidence, end.EndedAt
	a.Steps = withoutTelemetry(end.Steps)
	if !end.StartedAt.IsZero() {
		a.StartedAt = end.StartedAt
	}
	if a.EndedAt == nil {
		now := c.q.now()
		a.EndedAt = &now
	}
	rec.Session, rec.Devices, rec.Progress = "", nil, ""
	return *a
}

// withoutTelemetry is what a record keeps of a pipeline's steps: a result may be large, a record is read often.
func withoutTelemetry(steps []job.StepResult) []job.StepResult {
	short := slices.Clone(steps)
	for i := range short {
		short[i].GPUMonitoring = nil
	}
	return short
}

// keepRun leaves the attempt's message in the record until it is certain to be published.
func (c *Claim) keepRun(rec *job.Record, a job.Attempt, run *job.Run) {
	base := c.q.runResult(&c.Job, c.ref, rec, a)
	if run != nil {
		base = c.q.fill(*run, base)
	}
	rec.Run = &base
}

// endInstead ends the job where it may not run again.
func (c *Claim) endInstead(rec *job.Record) bool {
	switch {
	case rec.Cancel != nil:
		c.q.closeRecord(&c.Job, c.ref, rec, job.Result{State: job.Cancelled, Reason: cancelReason(rec.Cancel)})
	case rec.Lease != nil && rec.Lease.Release != nil: // it was not to be given any more
		c.q.closeRecord(&c.Job, c.ref, rec, job.Result{State: job.Cancelled, Reason: "released by " + rec.Lease.Release.By})
	case c.q.exhausted(rec):
		c.q.closeRecord(&c.Job, c.ref, rec, job.Result{State: job.Dead, Reason: "system_attempts", Evidence: exhaustedText(rec)})
	default:
		reason, text, late := overdue(&c.Job, rec, c.q.now())
		if !late {
			return false
		}
		c.q.closeRecord(&c.Job, c.ref, rec, job.Result{State: job.Expired, Reason: reason, Evidence: text})
	}
	return true
}

// ending says how a job that nobody runs comes to its end.
type ending struct {
	state   job.State
	reason  string      // one word
	text    string      // a sentence
	by      *job.Cancel // of a cancelled one
	project string      // where the job itself cannot say
	user    string
}

// endUnclaimed ends a job that is queued or held, or has no record yet. ErrFinal: it has ended already (what its record
// holds has been published once more). errRunning: somebody holds it.
func (q *Queue) endUnclaimed(ctx context.Context, ref Ref, e ending) error {
	j, err := q.jobForEnding(ctx, ref, e)
	if err != nil {
		return err
	}
	if err := q.step("end:cas"); err != nil {
		return err
	}
	var already error
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		already = nil
		switch {
		case rec == nil:
			rec = q.newRecord(j, ref)
		case rec.State.Final():
			already = ErrFinal
			return nil, errNoChange
		case rec.State == job.Running:
			return nil, errRunning
		}
		if e.by != nil {
			rec.Cancel = e.by
			e.reason = cancelReason(e.by)
		}
		q.closeRecord(j, ref, rec, job.Result{State: e.state, Reason: e.reason, Evidence: e.text})
		return rec, nil
	})
	if err != nil {
		return fmt.Errorf("end %s: %w", ref, err)
	}
	return errors.Join(q.publishEnd(ctx, ref, rec, "end"), already)
}

// jobForEnding is the job, or the little that is known of a message that is none.
func (q *Queue) jobForEnding(ctx context.Context, ref Ref, e ending) (*job.Job, error) {
	j, err := q.Job(ctx, ref.Number)
	if err == nil {
		return j, nil
	}
	if e.state != job.Dead || !errors.Is(err, errGarbage) && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	s, getErr := q.getSeq(ctx, ref.Number)
	if getErr != nil {
		return nil, getErr // a number that never was a job ends nothing
	}
	j = &job.Job{Version: job.Version, ID: s.Header.Get(headerMsgID), SubmittedAt: s.Time}
	if project, user, ok := parseJobSubject(s.Subject); ok {
		j.Project, j.User = project, user
	} else {
		j.Project, j.User = e.project, e.user
	}
	return j, nil
}
