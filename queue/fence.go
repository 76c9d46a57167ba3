package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthq/berth/job"
)

// verdict is what a record says about a message of some epoch.
type verdict int

const (
	mayClaim  verdict = iota // nobody has it
	mayForget                // nobody needs the message
	isRunning                // somebody has it; whether he lives must be asked
	tooEarly                 // the record is older than the message: a copy that lags
)

// judge compares a message's epoch with the record (nil: there is none). It is the whole epoch rule.
func judge(rec *job.Record, epoch int) verdict {
	switch {
	case rec == nil:
		return mayClaim
	case epoch > rec.Epoch:
		return tooEarly
	case epoch < rec.Epoch, rec.State.Final(), rec.State == job.Held, rec.Waiting:
		return mayForget
	case rec.State == job.Running:
		return isRunning
	case rec.Cancel != nil:
		return mayForget // forget ends it as cancelled
	}
	return mayClaim
}

// errRunning: the job cannot be ended from outside, somebody holds it.
var errRunning = errors.New("the job is running")

// takeFromDead closes the attempt of a holder whose session is gone: the job is queued again under the same epoch (its
// message is still there and keeps its place), or ends cancelled if that was asked, or dead after too many. ErrHeld:
// the holder lives.
func (q *Queue) takeFromDead(ctx context.Context, ref Ref, seen *job.Record) error {
	alive, err := q.alive(ctx, seen.Session)
	if err != nil {
		return err
	}
	if alive {
		return ErrHeld
	}
	j, err := q.jobOf(ctx, ref, seen)
	if err != nil {
		return err
	}
	if err := q.publishRun(ctx, ref, seen.Run); err != nil {
		return err
	}
	if err := q.step("lost:cas"); err != nil {
		return err
	}
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil || rec.State != job.Running || rec.Session != seen.Session || rec.Epoch != seen.Epoch {
			return nil, errNoChange // somebody else has seen to it
		}
		q.closeLost(j, ref, rec)
		return rec, nil
	})
	if err != nil {
		return err
	}
	if rec != nil && rec.State == job.Queued {
		q.log.Warn("machine_lost", "job", ref.String(), "machine", seen.Machine, "session", seen.Session)
	}
	return q.publishRun(ctx, ref, rec.Run)
}

// closeLost writes the end of a lost attempt into the record, and what follows from it.
func (q *Queue) closeLost(j *job.Job, ref Ref, rec *job.Record) {
	now := q.now()
	a := &rec.Attempts[len(rec.Attempts)-1]
	a.Outcome, a.EndedAt = job.OutcomeMachineLost, &now
	a.Reason = "machine_lost"
	a.Evidence = fmt.Sprintf("session %s of machine %s was not renewed for %s", rec.Session, rec.Machine, q.opts.ClaimTTL)
	run := q.runResult(j, ref, rec, *a)
	rec.Run = &run
	rec.Session, rec.Devices = "", nil
	switch {
	case rec.Cancel != nil:
		q.closeRecord(j, ref, rec, job.Result{State: job.Cancelled, Reason: cancelReason(rec.Cancel)})
	case q.closeLostLease(j, ref, rec):
	case q.exhausted(rec):
		q.closeRecord(j, ref, rec, job.Result{State: job.Dead, Reason: "system_attempts", Evidence: exhaustedText(rec)})
	default:
		rec.State, rec.Reason, rec.ReasonText = job.Queued, "", ""
		leavePlace(rec)
	}
}

// exhausted reports whether machines and GPUs have failed under this job as often as it may happen in one round.
func (q *Queue) exhausted(rec *job.Record) bool { return systemFailures(rec) >= q.opts.SystemAttempts }

func systemFailures(rec *job.Record) int {
	n := 0
	for _, a := range rec.Attempts {
		if max(a.Round, 1) != max(rec.Round, 1) {
			continue
		}
		if a.Outcome == job.OutcomeGPUFault || a.Outcome == job.OutcomeMachineLost {
			n++
		}
	}
	return n
}

func exhaustedText(rec *job.Record) string {
	return fmt.Sprintf("machines or GPUs failed under %d of its attempts; it is not given to another one", systemFailures(rec))
}

func cancelReason(c *job.Cancel) string {
	if c.Reason != "" {
		return fmt.Sprintf("cancelled by %s: %s", c.By, c.Reason)
	}
	return "cancelled by " + c.By
}

// jobOf reads the job of a record; where the jobs stream no longer has it, what the record says stands for it.
func (q *Queue) jobOf(ctx context.Context, ref Ref, rec *job.Record) (*job.Job, error) {
	j, err := q.Job(ctx, ref.Number)
	if err == nil || rec == nil || !errors.Is(err, ErrNotFound) && !errors.Is(err, errGarbage) {
		return j, err
	}
	return &job.Job{
		Version: job.Version, ID: rec.JobID, Project: rec.Project, User: rec.User, SubmittedAt: rec.QueuedAt,
		Spec: job.Spec{Name: rec.Name}, Requirements: rec.Requirements,
	}, nil
}
