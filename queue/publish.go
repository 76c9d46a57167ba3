package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// closeRecord ends the record's round with a result, filled with what the queue knows of the job.
func (q *Queue) closeRecord(j *job.Job, ref Ref, rec *job.Record, result job.Result) {
	now := q.now()
	if result.State == "" {
		result.State = result.Outcome.State()
	}
	if result.EndedAt == nil {
		result.EndedAt = &now
	}
	base := q.baseResult(j, ref, rec)
	base.Attempts = rec.Attempts
	if n := len(rec.Attempts); n > 0 {
		last := rec.Attempts[n-1]
		base = withAttempt(base, last)
		if result.Outcome == "" {
			result.Outcome, result.Exit = last.Outcome, last.Exit
		}
	}
	result = q.fill(result, base)
	rec.State, rec.Reason, rec.ReasonText = result.State, "", result.Reason
	rec.EndedAt, rec.NotBefore = result.EndedAt, nil
	rec.Session, rec.Devices, rec.Waiting = "", nil, false
	rec.Result = &result
}

// baseResult is who and what, for any result of the job.
func (q *Queue) baseResult(j *job.Job, ref Ref, rec *job.Record) job.Result {
	r := job.Result{
		Version: job.Version, JobID: rec.JobID, Number: ref.Number, Index: ref.IndexPtr(), Name: j.Spec.Name,
		Project: rec.Project, User: rec.User, UserClaimed: j.UserClaimed, Labels: j.Spec.Labels,
		Round: max(rec.Round, 1), QueuedAt: rec.QueuedAt,
	}
	if ref.Task {
		r.Group, r.Params = ref.Number, TaskParams(j, ref.Index)
	}
	return r
}

// runResult is the message of one attempt as far as the queue knows it.
func (q *Queue) runResult(j *job.Job, ref Ref, rec *job.Record, a job.Attempt) job.Run {
	return withAttempt(q.baseResult(j, ref, rec), a)
}

func withAttempt(r job.Result, a job.Attempt) job.Result {
	started := a.StartedAt
	r.Attempt, r.Outcome, r.Exit, r.Machine = a.Attempt, a.Outcome, a.Exit, a.Machine
	r.Reason, r.Evidence, r.StartedAt, r.EndedAt = a.Reason, a.Evidence, &started, a.EndedAt
	return r
}

// fill completes a result by what it does not say itself, and computes its two durations.
func (q *Queue) fill(r, base job.Result) job.Result {
	r.Version, r.JobID, r.Number, r.Index, r.Group = base.Version, base.JobID, base.Number, base.Index, base.Group
	r.Project, r.User, r.UserClaimed, r.Round, r.QueuedAt = base.Project, base.User, base.UserClaimed, base.Round, base.QueuedAt
	r.Name, r.Labels = base.Name, base.Labels
	if r.Params == nil {
		r.Params = base.Params
	}
	if r.Attempt == 0 {
		r.Attempt = base.Attempt
	}
	if r.Machine == "" {
		r.Machine = base.Machine
	}
	if r.StartedAt == nil {
		r.StartedAt = base.StartedAt
	}
	if r.EndedAt == nil {
		r.EndedAt = base.EndedAt
	}
	if r.Attempts == nil {
		r.Attempts = base.Attempts
	}
	if r.State == "" {
		r.State = r.Outcome.State()
	}
	r.QueuedSeconds, r.RunSeconds = durations(r)
	return r
}

// durations are how long the job waited for its last start, or for its end if it never started, and how long it ran.
func durations(r job.Result) (queued, run float64) {
	until := r.StartedAt
	if until == nil {
		until = r.EndedAt
	} else if r.EndedAt != nil {
		run = seconds(r.EndedAt.Sub(*r.StartedAt))
	}
	if until != nil {
		queued = seconds(until.Sub(r.QueuedAt))
	}
	return queued, run
}

// seconds is to the millisecond and never negative: clocks of two machines may differ.
func seconds(d time.Duration) float64 {
	return max(d.Round(time.Millisecond).Seconds(), 0)
}

// publishEnd puts the last attempt's message and the result of a finished record on the wire. It may be repeated: each
// is stored once for ever.
func (q *Queue) publishEnd(ctx context.Context, ref Ref, rec *job.Record, verb string) error {
	if rec.Result == nil {
		return nil // written by a hand that is not ours
	}
	if err := q.publishRun(ctx, ref, lastRun(rec)); err != nil {
		return err
	}
	if err := q.bury(ctx, ref, rec.Result); err != nil {
		return err
	}
	if err := q.wakeWaiting(ctx, ref, rec); err != nil {
		return err
	}
	if err := q.step(verb + ":result"); err != nil {
		return err
	}
	return q.publishResult(ctx, ref, rec)
}

// lastRun is the message of the record's last attempt: the one kept, or the figures of the result.
func lastRun(rec *job.Record) *job.Run {
	if rec.Run != nil || rec.Result.Attempt == 0 || len(rec.Attempts) == 0 {
		return rec.Run
	}
	run := *rec.Result
	run.Attempts = nil
	return &run
}

// publishRun stores an attempt's message, if it is not stored yet. nil is nothing to publish.
func (q *Queue) publishRun(ctx context.Context, ref Ref, run *job.Run) error {
	if run == nil {
		return nil
	}
	return q.storeOnce(ctx, runSubject(run.Project, ref, run.Attempt), run, "run."+ref.attemptToken(run.Attempt), 0)
}

// publishResult stores a round's result as the next one after the previous round's.
func (q *Queue) publishResult(ctx context.Context, ref Ref, rec *job.Record) error {
	id := "result." + ref.attemptToken(rec.Result.Round)
	return q.storeOnce(ctx, resultSubject(rec.Result.Project, ref), rec.Result, id, rec.ResultSeq)
}

// storeOnce publishes a result if the last message of its subject is still the expected one. If it is not, somebody
// has published this one already.
func (q *Queue) storeOnce(ctx context.Context, subject string, r *job.Result, id string, after uint64) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	m := newMsg(subject, body)
	m.Header.Set(headerMsgID, id)
	m.Header.Set(HeaderState, string(r.State))
	m.Header.Set(headerRound, strconv.Itoa(r.Round))
	_, err = q.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(after))
	if isWrongLast(err) {
		return nil
	}
	return err
}
