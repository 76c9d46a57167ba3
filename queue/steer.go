package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"

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

// SetPriority changes the priority, 0 to 100. A waiting job moves to its new lane; for a running one it counts when it
// is queued again; of a group, for the tasks that are not on a lane yet.
func (q *Queue) SetPriority(ctx context.Context, ref Ref, by string, priority int) error {
	_, err := q.askAbout(ctx, verbSet, ref, by, controlRequest{Job: ref.String(), Priority: &priority})
	return err
}

// ErrRunning says that the job runs; that verb is for waiting ones.
var ErrRunning = errors.New("the job is running")

// steer does hold, release and set. Each is one write of the record; what follows from it (a message of the next epoch)
// is put back by the janitor if a crash comes in between.
func (q *Queue) steer(ctx context.Context, verb string, ref Ref, j *job.Job, by string, r controlRequest) (job.State, error) {
	if err := checkMember(j, ref); err != nil {
		return "", err
	}
	edit, err := steering(verb, by, r)
	if err != nil {
		return "", err
	}
	before := 0
	rec, _, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil {
			rec = q.newRecord(j, ref)
		}
		if rec.State.Final() {
			return nil, ErrFinal
		}
		before = rec.Epoch
		return rec, edit(rec)
	})
	if err != nil {
		return "", err
	}
	if err := q.step("steer:dispatch"); err != nil {
		return rec.State, err
	}
	switch {
	case j.IsGroup() && !ref.Task:
		err = q.nc.Publish(prefixNotifyGroup+strconv.FormatUint(ref.Number, 10), nil)
	case rec.State == job.Queued && rec.Epoch > before:
		err = q.dispatch(ctx, q.parcelFor(j, ref, rec))
	}
	q.noteDeed(ctx, Event{Kind: verb, Project: j.Project, By: by, Job: ref.String(), Text: r.Reason})
	return rec.State, err
}

// steering is what a verb does to the record of a job that has not ended.
func steering(verb, by string, r controlRequest) (func(rec *job.Record) error, error) {
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
			rec.Epoch++
			return nil
		}, nil
	}
	if r.Priority == nil || *r.Priority < 0 || *r.Priority > job.MaxPriority {
		return nil, fmt.Errorf("%w: a priority is 0 to %d", ErrBadRequest, job.MaxPriority)
	}
	return func(rec *job.Record) error {
		if rec.Priority != nil && *rec.Priority == *r.Priority {
			return errNoChange
		}
		rec.Priority = r.Priority
		if rec.State == job.Queued {
			rec.Epoch++
		}
		return nil
	}, nil
}

func heldText(by, reason string) string {
	if reason == "" {
		return "held by " + by
	}
	return "held by " + by + ": " + reason
}
