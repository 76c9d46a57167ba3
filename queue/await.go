package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
)

// WaitStarted waits until a job runs, or has ended.
func (q *Queue) WaitStarted(ctx context.Context, ref Ref) (job.Record, error) {
	return q.waitRecord(ctx, ref, func(rec *job.Record) bool { return rec.State == job.Running || rec.State.Final() })
}

// waitRecord waits until a job's record is as wished. The broker tells of every change.
func (q *Queue) waitRecord(ctx context.Context, ref Ref, wished func(*job.Record) bool) (job.Record, error) {
	changes := make(chan *nats.Msg, 64)
	sub, err := q.nc.ChanSubscribe(q.records.subject(ref.String()), changes)
	if err != nil {
		return job.Record{}, fmt.Errorf("wait for %s: %w", ref, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		rec, _, err := q.records.read(ctx, ref, true)
		switch {
		case ctx.Err() != nil:
			return job.Record{}, fmt.Errorf("wait for %s: %w", ref, context.Cause(ctx))
		case err != nil && !isTransient(err):
			return job.Record{}, fmt.Errorf("wait for %s: %w", ref, err)
		case err == nil && rec != nil && wished(rec):
			return *rec, nil
		}
		select {
		case <-ctx.Done():
		case <-changes:
		case <-look.C:
		}
	}
}

// lookAgain makes good a change that was published while the connection was gone.
const lookAgain = 2 * time.Second
