package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// dueMessage comes back from the schedule when a job has waited long enough. It is only a wake-up: whether the job is
// overdue is asked again when it comes, and also when the job is claimed, so that one that gets lost lets nothing start
// late.
type dueMessage struct {
	Due string `json:"due"`          // number
	By  string `json:"by,omitempty"` // the job whose end is the reason to look: it waits for that
	// Place: the reason is that it has waited for a place of its choice long enough.
	Place bool `json:"place,omitempty"`
}

// overdue reports whether a job that nobody runs must not start any more, with the word and the sentence for it.
func overdue(j *job.Job, rec *job.Record, now time.Time) (reason, text string, yes bool) {
	if d := j.Spec.Deadline; d != nil && !now.Before(*d) {
		return "deadline", "its deadline was " + d.UTC().Format(time.RFC3339), true
	}
	limit := j.Spec.WaitTimeout.Std()
	started := rec != nil && len(rec.Attempts) > 0
	waiting := rec != nil && rec.Waiting || rec == nil && len(j.Spec.DependsOn) > 0 // its time begins when its parents have ended
	if limit > 0 && !started && !waiting && !now.Before(waitsSince(j, rec).Add(limit)) {
		return "wait_timeout", fmt.Sprintf("it was not started within %s", j.Spec.WaitTimeout), true
	}
	return "", "", false
}

// waitsSince is when a job began to wait: when it was queued, or the time it was not to begin before.
func waitsSince(j *job.Job, rec *job.Record) time.Time {
	since := j.SubmittedAt
	if rec != nil {
		since = rec.QueuedAt
	}
	if j.Spec.Begin != nil && j.Spec.Begin.After(since) {
		return *j.Spec.Begin
	}
	return since
}

// dueAt is the next moment at which a job may become overdue; zero: never.
func dueAt(j *job.Job, rec *job.Record, now time.Time) time.Time {
	var at time.Time
	if d := j.Spec.Deadline; d != nil {
		at = *d
	}
	if j.Spec.WaitTimeout > 0 {
		end := waitsSince(j, rec).Add(j.Spec.WaitTimeout.Std())
		if at.IsZero() || end.Before(at) && end.After(now) {
			at = end
		}
	}
	return at
}

// remind puts a wake-up for the job on the schedule, once however often it is called.
func (q *Queue) remind(ctx context.Context, j *job.Job, number uint64, rec *job.Record) error {
	now := q.now()
	at := dueAt(j, rec, now)
	if at.IsZero() {
		return nil
	}
	if earliest := now.Add(soonest); at.Before(earliest) {
		at = earliest
	}
	body, err := json.Marshal(dueMessage{Due: JobRef(number).String()})
	if err != nil {
		return err
	}
	m := newMsg(prefixWake+JobRef(number).String(), body)
	m.Header.Set(headerSched, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(headerTarget, prefixDue+j.Project)
	_, err = q.publish(ctx, m)
	return err
}

// serveDue ends overdue jobs as their wake-ups come, until ctx ends.
func (q *Queue) serveDue(ctx context.Context) error {
	cfg := jetstream.ConsumerConfig{
		Durable: consumerDue, FilterSubject: prefixDue + "*", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: clerkAckWait, MaxDeliver: -1, MaxAckPending: -1,
	}
	consumer, err := q.js.CreateConsumer(ctx, StreamDuties, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		consumer, err = q.js.Consumer(ctx, StreamDuties, consumerDue)
	}
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(16))
	if err != nil {
		return err
	}
	last, end := endWith(ctx, messages)
	defer end()
	for {
		m, err := messages.Next(jetstream.NextContext(last))
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := q.wakeUp(ctx, m.Data()); err != nil {
			q.log.Warn("wake_up_postponed", "err", err)
			giveBack(m, time.Second)
			continue
		}
		_ = m.Ack() // if it gets lost the wake-up comes again and does nothing
	}
}

// wakeUp looks whether the job that a message names is overdue.
func (q *Queue) wakeUp(ctx context.Context, data []byte) error {
	var d dueMessage
	if json.Unmarshal(data, &d) != nil {
		return nil //nolint:nilerr // not ours: it is dropped
	}
	ref, err := ParseRef(d.Due)
	if err != nil {
		return nil //nolint:nilerr // not ours either; it is dropped
	}
	j, err := q.Job(ctx, ref.Number)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errGarbage) {
		return nil
	}
	if err != nil {
		return err
	}
	if d.Place {
		return q.settlePlace(ctx, j, ref)
	}
	if len(j.Spec.DependsOn) > 0 {
		by, _ := ParseRef(d.By) // none: it is the time that woke us
		if err := q.settleWait(ctx, j, ref, by); err != nil {
			return err
		}
	}
	rec, _, err := q.records.get(ctx, ref)
	if err != nil {
		return err
	}
	if _, err := q.expire(ctx, ref, j, rec); err != nil {
		return err
	}
	if at := dueAt(j, rec, q.now()); d.By == "" && at.After(q.now()) {
		return q.remind(ctx, j, ref.Number, rec) // the waiting limit is through, the deadline is still to come
	}
	return nil
}

// expire ends a job that is overdue and that nobody runs. A running one is left alone: a deadline says when a job must
// have begun.
func (q *Queue) expire(ctx context.Context, ref Ref, j *job.Job, rec *job.Record) (bool, error) {
	if rec != nil && rec.State.Final() {
		return false, nil
	}
	reason, text, yes := overdue(j, rec, q.now())
	if !yes {
		return false, nil
	}
	err := q.endUnclaimed(ctx, ref, ending{state: job.Expired, reason: reason, text: text})
	if errors.Is(err, errRunning) || errors.Is(err, ErrFinal) {
		return false, nil
	}
	return err == nil, err
}
