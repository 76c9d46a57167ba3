package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// ResultOptions say which results are wanted. Of New, From and Since the first that is set counts.
type ResultOptions struct {
	Project string    // "" = all
	Ref     Ref       // of one job, task, or (with its tasks) group; zero = all
	Since   time.Time // stored at or after; zero = from the beginning
	From    uint64    // this sequence and later ones; 0 = from the beginning; [ErrNotKept], [ErrNotYet]
	New     bool      // only those that come from now on
	Follow  bool      // go on with new ones as they come
}

// Results yields results in the order in which they were stored. It ends with the last one there is, or with Follow
// when ctx does. An error is the last thing it yields.
func (q *Queue) Results(ctx context.Context, o ResultOptions) iter.Seq2[job.Result, error] {
	return values(q.ResultEntries(ctx, o))
}

// ResultEntries is [Queue.Results] with the place of each in the log, for who wants to go on there.
func (q *Queue) ResultEntries(ctx context.Context, o ResultOptions) iter.Seq2[Entry[job.Result], error] {
	from := start{Since: o.Since, From: o.From, New: o.New}
	return named("results", entries[job.Result](ctx, q, StreamResults, resultFilters(o), from, o.Follow))
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
		consumer, err := q.orderedConsumer(ctx, stream, cfg)
		if follow && err != nil && isTransient(err) { // whoever follows has patience
			err = retry(ctx, func() (err error) {
				consumer, err = q.orderedConsumer(ctx, stream, cfg)
				return err
			})
		}
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

// orderedConsumer makes one within tryTimeout: the answer of a broker that dies meanwhile never comes.
func (q *Queue) orderedConsumer(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	try, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return q.js.OrderedConsumer(try, stream, cfg)
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
	var project string
	round := 1
	err := retry(ctx, func() (err error) {
		if project, err = q.projectOf(ctx, ref); err != nil {
			return err
		}
		rec, _, err := q.records.get(ctx, ref)
		if err == nil && rec != nil {
			round = max(rec.Round, 1)
		}
		return err
	})
	if err != nil {
		return job.Result{}, fmt.Errorf("wait for %s: %w", ref, err)
	}
	come := make(chan *nats.Msg, 8)
	sub, err := q.nc.ChanSubscribe(resultSubject(project, ref), come)
	if err != nil {
		return job.Result{}, fmt.Errorf("wait for %s: %w", ref, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		r, err := q.Result(ctx, project, ref)
		switch {
		case err == nil && r.Round >= round:
			return r, nil
		case ctx.Err() != nil:
			return job.Result{}, fmt.Errorf("wait for %s: %w", ref, context.Cause(ctx))
		case err != nil && !isTransient(err) && !errors.Is(err, ErrNotFound):
			return job.Result{}, fmt.Errorf("wait for %s: %w", ref, err)
		}
		select {
		case <-ctx.Done():
		case <-come:
		case <-again.C: // it may have come while the connection was gone, and the copy that was asked may lag
		}
	}
}
