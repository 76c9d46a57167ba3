package queue

import (
	"context"
	"time"

	"github.com/berthq/berth/job"
)

// effectiveLimit is how long a run may take: what the job or task was set to, else what its group was, else its spec;
// 0 is as long as it likes.
func effectiveLimit(j *job.Job, rec *job.Record, group *job.Duration) job.Duration {
	switch {
	case rec != nil && rec.TimeLimit != nil:
		return *rec.TimeLimit
	case group != nil:
		return *group
	}
	return j.Spec.TimeLimit
}

// timeLimitOf is the effective time limit of a job or task; of a task it asks for its group, at most once a second.
func (q *Queue) timeLimitOf(ctx context.Context, j *job.Job, ref Ref, rec *job.Record) job.Duration {
	if !ref.Task || rec != nil && rec.TimeLimit != nil {
		return effectiveLimit(j, rec, nil)
	}
	return effectiveLimit(j, rec, q.groupStanding(ctx, ref.Number).limit)
}

// TakeTimeLimit is the time limit of the run that is about to start; 0 is none. From here on the holder is told of each
// change by Control.
func (c *Claim) TakeTimeLimit(ctx context.Context) time.Duration {
	rec := c.Record()
	limit := c.q.timeLimitOf(ctx, &c.Job, c.ref, &rec)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = &limit
	return limit.Std()
}

// tellLimit passes a changed time limit on. A successor that has resumed the claim is told in any case: the limit may
// have been changed while nobody was there to hear of it. A lease has its own verb for its end.
func (c *Claim) tellLimit(limit job.Duration) {
	if c.Job.Spec.IsLease() || c.limit != nil && *c.limit == limit {
		return
	}
	if c.tell(ControlEvent{Kind: ControlLimit, Limit: limit.Std()}) {
		c.limit = &limit
	}
}

// ExpectedLimit is how long the run may take at most: its own time limit, else its project's default, which counts for
// planning and ends no run. 0 is not known.
func (d *Delivery) ExpectedLimit(ctx context.Context) time.Duration {
	return d.q.expectedLimit(d.Job.Project, d.q.timeLimitOf(ctx, &d.Job, d.Ref(), d.Record))
}

// ExpectedLimit is the same of a job that runs.
func (c *Claim) ExpectedLimit() time.Duration {
	c.mu.Lock()
	limit := c.Job.Spec.TimeLimit
	if c.limit != nil {
		limit = *c.limit
	}
	c.mu.Unlock()
	return c.q.expectedLimit(c.Job.Project, limit)
}

func (q *Queue) expectedLimit(project string, own job.Duration) time.Duration {
	if own > 0 {
		return own.Std()
	}
	t := q.projects
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.set[project].DefaultTimeLimit.Std()
}
