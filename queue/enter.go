package queue

import (
	"context"

	"github.com/berthq/berth/job"
)

// entersWaiting reports whether a job is not to be put on a lane as soon as it comes: it is held, or waits for others.
func entersWaiting(j *job.Job) bool { return j.Spec.Hold || len(j.Spec.DependsOn) > 0 }

// enter writes the record of a job that is not to be put on just any lane as soon as it comes, once, and lets it wait for
// its parents. waits: it is not (any longer) for its clerk to put it on a lane. It may be repeated.
func (q *Queue) enter(ctx context.Context, j *job.Job, number uint64) (rec *job.Record, waits bool, err error) {
	ref := JobRef(number)
	if !entersWaiting(j) {
		rec, err = q.enterNear(ctx, j, ref)
		return rec, false, err
	}
	if err := q.step("enter:cas"); err != nil {
		return nil, true, err
	}
	rec, err = q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec != nil {
			return nil, errNoChange
		}
		return q.newRecord(j, ref), nil
	})
	if err != nil || !rec.Waiting {
		return rec, true, err
	}
	if err := q.await(ctx, j, ref); err != nil {
		return rec, true, err
	}
	return rec, true, q.settleWait(ctx, j, ref, Ref{})
}

// enterNear writes down where a job would rather run, before its first message: nil for one that has no such wish. Who
// was faster (a person who changed its priority) has put it on a lane for all.
func (q *Queue) enterNear(ctx context.Context, j *job.Job, ref Ref) (*job.Record, error) {
	near, err := q.placeNear(ctx, j, requirementsOf(j, ref))
	if err != nil || near == nil {
		return nil, err
	}
	if err := q.step("enter:cas"); err != nil {
		return nil, err
	}
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil {
			rec = q.newRecord(j, ref)
		}
		if rec.Near != nil || rec.Epoch > 1 || rec.State != job.Queued || len(rec.Attempts) > 0 {
			return nil, errNoChange
		}
		rec.Near = near
		return rec, nil
	})
	if err != nil {
		return nil, err
	}
	return rec, q.remindOfPlace(ctx, j.Project, ref, rec)
}
