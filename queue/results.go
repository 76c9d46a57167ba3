package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// ResultOptions say which results are wanted.
type ResultOptions struct {
	Project string    // "" = all
	Ref     Ref       // of one job, task, or (with its tasks) group; zero = all
	Since   time.Time // stored at or after; zero = from the beginning
	New     bool      // only those that come from now on
	Follow  bool      // go on with new ones as they come
}

// Results yields results in the order in which they were stored. It ends with the last one there is, or with Follow
// when ctx does. An error is the last thing it yields.
func (q *Queue) Results(ctx context.Context, o ResultOptions) iter.Seq2[job.Result, error] {
	return func(yield func(job.Result, error) bool) {
		cfg := jetstream.OrderedConsumerConfig{FilterSubjects: resultFilters(o)}
		switch {
		case o.New:
			cfg.DeliverPolicy = jetstream.DeliverNewPolicy
		case !o.Since.IsZero():
			cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Since
		}
		for m, err := range q.read(ctx, StreamResults, cfg, o.Follow) {
			if err != nil {
				yield(job.Result{}, fmt.Errorf("results: %w", err))
				return
			}
			var r job.Result
			if err := json.Unmarshal(m.Data(), &r); err != nil {
				q.log.Warn("result_not_readable", "subject", m.Subject(), "err", err)
				continue
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func resultFilters(o ResultOptions) []string {
	project := o.Project
	if project == "" {
		project = "*"
	}
	if o.Ref == (Ref{}) {
		return []string{prefixResults + project + ".>"}
	}
	subject := resultSubject(project, o.Ref)
	if o.Ref.Task {
		return []string{subject}
	}
	return []string{subject, subject + ".*"}
}

// read yields the messages of an ordered consumer: those there are, and with follow those that come until ctx ends.
func (q *Queue) read(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig, follow bool) iter.Seq2[jetstream.Msg, error] {
	return func(yield func(jetstream.Msg, error) bool) {
		consumer, err := q.js.OrderedConsumer(ctx, stream, cfg)
		if err != nil {
			yield(nil, streamError(err))
			return
		}
		defer q.forgetConsumer(stream, consumer)
		left := consumer.CachedInfo().NumPending
		if left == 0 && !follow {
			return
		}
		messages, err := consumer.Messages()
		if err != nil {
			yield(nil, err)
			return
		}
		defer messages.Stop()
		for follow || left > 0 {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				if !follow || ctx.Err() == nil {
					yield(nil, errors.Join(ctx.Err(), err))
				}
				return
			}
			left--
			if !yield(m, nil) {
				return
			}
		}
	}
}

// forgetConsumer takes an ordered consumer off the broker, which would keep it for five minutes. Nobody waits for the
// answer: without the word it goes then.
func (q *Queue) forgetConsumer(stream string, c jetstream.Consumer) {
	if info := c.CachedInfo(); info != nil {
		_ = q.nc.Publish("$JS.API.CONSUMER.DELETE."+stream+"."+info.Name, nil) // fails only when the connection is gone
	}
}

// Result is the last result of a job, task or group. ErrNotFound: its round has not ended.
func (q *Queue) Result(ctx context.Context, project string, ref Ref) (job.Result, error) {
	s, err := q.getLast(ctx, StreamResults, resultSubject(project, ref), false)
	if err != nil {
		return job.Result{}, fmt.Errorf("result of %s: %w", ref, err)
	}
	var r job.Result
	if err := json.Unmarshal(s.Data, &r); err != nil {
		return r, fmt.Errorf("result of %s: %w", ref, err)
	}
	return r, nil
}

// WaitResult waits for the end of a job's present round and returns its result.
func (q *Queue) WaitResult(ctx context.Context, ref Ref) (job.Result, error) {
	project, err := q.projectOf(ctx, ref)
	if err != nil {
		return job.Result{}, fmt.Errorf("wait for %s: %w", ref, err)
	}
	round := 1
	rec, _, err := q.records.get(ctx, ref)
	if err != nil {
		return job.Result{}, fmt.Errorf("wait for %s: %w", ref, err)
	}
	if rec != nil {
		round = max(rec.Round, 1)
	}
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{resultSubject(project, ref)}, DeliverPolicy: jetstream.DeliverLastPolicy,
	}
	for m, err := range q.read(ctx, StreamResults, cfg, true) {
		if err != nil {
			return job.Result{}, fmt.Errorf("wait for %s: %w", ref, err)
		}
		var r job.Result
		if err := json.Unmarshal(m.Data(), &r); err != nil {
			return r, fmt.Errorf("wait for %s: %w", ref, err)
		}
		if r.Round >= round {
			return r, nil
		}
	}
	return job.Result{}, fmt.Errorf("wait for %s: %w", ref, context.Cause(ctx))
}
