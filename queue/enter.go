package queue

import (
	"context"

	"github.com/berthq/berth/job"
)

// entersWaiting reports whether a job is not to be put on a lane as soon as it comes: it is held, or waits for others.
func entersWaiting(j *job.Job) bool { return j.Spec.Hold || len(j.Spec.DependsOn) > 0 }

// enter writes the record of a job that is not to be put on a lane yet, once, and lets it wait for its parents. waits:
// it is not (any longer) for its clerk to put it there. It may be repeated.
func (q *Queue) enter(ctx context.Context, j *job.Job, number uint64) (waits bool, err error) {
	if !entersWaiting(j) {
		return false, nil
	}
	ref := JobRef(number)
	if err := q.step("enter:cas"); err != nil {
		return true, err
	}
	rec, _, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec != nil {
			return nil, errNoChange
		}
		return q.newRecord(j, ref), nil
	})
	if err != nil || !rec.Waiting {
		return true, err
	}
	if err := q.await(ctx, j, ref); err != nil {
		return true, err
	}
	return true, q.settleWait(ctx, j, ref, Ref{})
}
