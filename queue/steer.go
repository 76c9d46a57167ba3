package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
)

// Hold keeps a waiting job from starting until it is released. A job that runs is not stopped: ErrRunning.
func (q *Queue) Hold(ctx context.Context, ref Ref, by, reason string) error {
	_, err := q.askAbout(ctx, verbHold, ref, by, controlRequest{Job: ref.String(), Reason: reason})
	return err
}

// Release lets a held job go on; one that is not held is left as it is.
func (q *Queue) Release(ctx context.Context, ref Ref, by string) error {
	_, err := q.askAbout(ctx, verbRelease, ref, by, controlRequest{Job: ref.String()})
	return err
}

// Change is what can be changed about a job that has not ended; nil is as it was.
type Change struct {
	Priority  *int          // 0 to 100
	TimeLimit *job.Duration // counted from the start of a run; 0 is none
}

// Set changes a job. A new priority moves a waiting job to its new lane, and counts for a running one when it is queued
// again; a new time limit reaches a running job too, and ends it if it has run longer. Of a group, a priority counts for
// the tasks that are not on a lane yet, a time limit for all that have none of their own. The state is the job's.
func (q *Queue) Set(ctx context.Context, ref Ref, by string, c Change) (job.State, error) {
	return q.askAbout(ctx, verbSet, ref, by, controlRequest{Job: ref.String(), Priority: c.Priority, TimeLimit: c.TimeLimit})
}

// ErrRunning says that the job runs; that verb is for waiting ones.
var ErrRunning = errors.New("the job is running")

// steer does hold, release and set. Each is one write of the record; what follows from it (a message of the next epoch)
// is put back by the janitor if a crash comes in between.
func (q *Queue) steer(ctx context.Context, verb string, ref Ref, j *job.Job, by string, r controlRequest) (job.State, error) {
	if err := checkMember(j, ref); err != nil {
		return "", err
	}
	if r.TimeLimit != nil && j.Spec.IsLease() {
		return "", fmt.Errorf("%w: a lease has no time limit; berth lease extend %s moves its end", ErrBadRequest, ref)
	}
	edit, err := steering(verb, j, by, r)
	if err != nil {
		return "", err
	}
	var near *job.Near
	if verb == verbRelease {
		if near, err = q.placeNear(ctx, j, requirementsOf(j, ref)); err != nil {
			return "", err
		}
	}
	before := 0
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil {
			rec = q.newRecord(j, ref)
		}
		if rec.State.Final() {
			return nil, ErrFinal
		}
		before = rec.Epoch
		err := edit(rec)
		if verb == verbRelease && err == nil && !rec.Waiting {
			rec.Near = near // it has waited long; only now it is put on a lane
		}
		return rec, err
	})
	if err != nil {
		return "", err
	}
	if rec == nil {
		return job.Queued, nil // it was never claimed nor held: there is nothing to release
	}
	if err := q.step("steer:dispatch"); err != nil {
		return rec.State, err
	}
	switch {
	case j.IsGroup() && !ref.Task:
		err = q.nc.Publish(prefixNotifyGroup+strconv.FormatUint(ref.Number, 10), nil)
	case rec.State == job.Queued && rec.Epoch > before:
		if err = q.remindOfPlace(ctx, j.Project, ref, rec); err != nil {
			return rec.State, err
		}
		err = q.dispatch(ctx, q.parcelFor(j, ref, rec))
	case rec.State == job.Running:
		err = q.notifyHolder(rec.Session, ref)
	}
	text := r.Reason
	if verb == verbSet {
		text = changeText(r)
	}
	q.noteDeed(ctx, Event{Kind: verb, Project: j.Project, By: by, Job: ref.String(), Text: text})
	return rec.State, err
}

// steering is what a verb does to the record of a job that has not ended.
func steering(verb string, j *job.Job, by string, r controlRequest) (func(rec *job.Record) error, error) {
	switch verb {
	case verbHold:
		return func(rec *job.Record) error {
			switch rec.State {
			case job.Running:
				return ErrRunning
			case job.Held:
				return errNoChange
			}
			rec.State, rec.Reason, rec.ReasonText = job.Held, "Held", heldText(by, r.Reason)
			return nil
		}, nil
	case verbRelease:
		return func(rec *job.Record) error {
			if rec.State != job.Held {
				return errNoChange
			}
			rec.State, rec.Reason, rec.ReasonText = job.Queued, "", ""
			if rec.Waiting { // its parents' end puts it on a lane
				rec.Reason, rec.ReasonText = reasonDependency, waitingText(j.Spec)
				return nil
			}
			rec.Epoch++
			return nil
		}, nil
	}
	if err := checkChange(r); err != nil {
		return nil, err
	}
	return func(rec *job.Record) error { return change(rec, r) }, nil
}

func checkChange(r controlRequest) error {
	switch {
	case r.Priority == nil && r.TimeLimit == nil:
		return fmt.Errorf("%w: it does not say what to set", ErrBadRequest)
	case r.Priority != nil && (*r.Priority < 0 || *r.Priority > job.MaxPriority):
		return fmt.Errorf("%w: a priority is 0 to %d", ErrBadRequest, job.MaxPriority)
	case r.TimeLimit != nil && *r.TimeLimit < 0:
		return fmt.Errorf("%w: a time limit is not negative", ErrBadRequest)
	}
	return nil
}

// change writes the new values, and queues the job anew if that moves it to another lane.
func change(rec *job.Record, r controlRequest) error {
	moved := r.Priority != nil && (rec.Priority == nil || *rec.Priority != *r.Priority)
	limited := r.TimeLimit != nil && (rec.TimeLimit == nil || *rec.TimeLimit != *r.TimeLimit)
	if !moved && !limited {
		return errNoChange
	}
	if limited {
		rec.TimeLimit = r.TimeLimit
	}
	if !moved {
		return nil
	}
	rec.Priority = r.Priority
	if rec.State == job.Queued && !rec.Waiting {
		rec.Epoch++
	}
	return nil
}

// changeText says what was set, for the log of deeds.
func changeText(r controlRequest) string {
	var parts []string
	if r.Priority != nil {
		parts = append(parts, fmt.Sprintf("priority %d", *r.Priority))
	}
	if r.TimeLimit != nil && *r.TimeLimit == 0 {
		parts = append(parts, "no time limit")
	} else if r.TimeLimit != nil {
		parts = append(parts, "time limit "+r.TimeLimit.String())
	}
	return strings.Join(parts, ", ")
}

func heldText(by, reason string) string {
	if reason == "" {
		return "held by " + by
	}
	return "held by " + by + ": " + reason
}
