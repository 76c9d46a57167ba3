package queue

import (
	"context"

	"github.com/berthq/berth/job"
)

// entersWaiting reports whether a job is not to be put on a lane as soon as it comes.
func entersWaiting(j *job.Job) bool { return j.Spec.Hold }

// enter writes the record of a job that is not to be put on a lane yet, once. waits: it is not (any longer) for its clerk
// to put it there.
func (q *Queue) enter(ctx context.Context, j *job.Job, number uint64) (waits bool, err error) {
	if !entersWaiting(j) {
		return false, nil
	}
	_, _, err = q.records.change(ctx, JobRef(number), func(rec *job.Record) (*job.Record, error) {
		if rec != nil {
			return nil, errNoChange
		}
		return q.newRecord(j, JobRef(number)), nil
	})
	return true, err
}
