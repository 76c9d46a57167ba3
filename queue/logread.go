package queue

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// logQuiet is how long a reader that follows waits for more after the job has ended without an end marker: the machine
// died with the end of the log, or the tasks of a group are still shipping.
const logQuiet = 2 * time.Second

// LogOptions say which output is wanted.
type LogOptions struct {
	Attempt int  // 0: all attempts, in order
	Follow  bool // wait for the start, go on until the job has ended
}

// Logs yields the output of a job, task or (all its tasks, interleaved) group, each piece once and in order. With Follow
// it waits for the start and ends with the job; without, it ends with what there is. An error is the last thing it
// yields.
func (q *Queue) Logs(ctx context.Context, ref Ref, o LogOptions) iter.Seq2[LogChunk, error] {
	return func(yield func(LogChunk, error) bool) {
		project, err := q.projectOf(ctx, ref)
		if err == nil {
			r := &logReader{q: q, ref: ref, project: project, o: o, next: map[string]int64{}, ended: map[int]bool{}}
			if o.Follow {
				err = r.follow(ctx, yield)
			} else {
				err = r.all(ctx, yield)
			}
		}
		if err != nil {
			yield(LogChunk{}, fmt.Errorf("log of %s: %w", ref, err))
		}
	}
}

// logReader knows what has been seen, so that a piece that was shipped twice is shown once, and when nothing more can
// come.
type logReader struct {
	q       *Queue
	ref     Ref
	project string
	o       LogOptions

	next  map[string]int64 // by number[.index].attempt: where the next piece begins
	ended map[int]bool     // attempts whose end marker was seen
	over  bool             // the job has ended
	final int              // with this attempt; 0: it never ran, or is a group
}

func (r *logReader) config() jetstream.OrderedConsumerConfig {
	filter := prefixLogs + r.project + "." + r.ref.String() + ".>"
	if r.o.Attempt > 0 {
		filter = logSubject(r.project, r.ref, r.o.Attempt)
	}
	return jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}}
}

func (r *logReader) all(ctx context.Context, yield func(LogChunk, error) bool) error {
	for m, err := range r.q.read(ctx, StreamLogs, r.config(), false) {
		if err != nil {
			return err
		}
		if c, ok := r.accept(m); ok && !yield(c, nil) {
			return nil
		}
	}
	return nil
}

// follow reads the log and waits for the job's end side by side.
func (r *logReader) follow(ctx context.Context, yield func(LogChunk, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	ends := make(chan job.Result, 1)
	failed := make(chan error, 1)
	waited := make(chan struct{})
	defer func() { cancel(); <-waited }()
	go func() {
		defer close(waited)
		result, err := r.q.WaitResult(ctx, r.ref)
		if err != nil {
			failed <- err
			return
		}
		ends <- result
	}()
	consumer, err := r.q.js.OrderedConsumer(ctx, StreamLogs, r.config())
	if err != nil {
		return streamError(err)
	}
	pieces := make(chan jetstream.Msg)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case pieces <- m:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	defer consuming.Stop()
	return r.merge(ctx, pieces, ends, failed, yield)
}

func (r *logReader) merge(ctx context.Context, pieces <-chan jetstream.Msg, ends <-chan job.Result, failed <-chan error, yield func(LogChunk, error) bool) error {
	quiet := time.NewTimer(logQuiet)
	defer quiet.Stop()
	for !r.complete() {
		select {
		case m := <-pieces:
			quiet.Reset(logQuiet)
			if c, ok := r.accept(m); ok && !yield(c, nil) {
				return nil
			}
		case end := <-ends:
			quiet.Reset(logQuiet)
			r.over, r.final = true, end.Attempt
			if end.Attempt == 0 && len(r.next) == 0 && end.State == job.Cancelled {
				return nil // it never ran
			}
		case <-quiet.C:
			if r.over {
				return nil
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// accept decodes a piece and reports whether it is new.
func (r *logReader) accept(m jetstream.Msg) (LogChunk, bool) {
	c, err := decodeChunk(m.Subject(), m.Headers(), m.Data())
	if err != nil {
		r.q.log.Warn("log_not_readable", "subject", m.Subject(), "err", err)
		return c, false
	}
	if c.End {
		r.ended[c.Attempt] = true
		return c, true
	}
	key := fmt.Sprint(c.Job, ".", c.Attempt)
	if c.Offset < r.next[key] {
		return c, false
	}
	r.next[key] = max(c.Next, c.Offset+1)
	return c, true
}

// complete reports whether nothing more can come.
func (r *logReader) complete() bool {
	if r.o.Attempt > 0 && !r.isGroup() {
		return r.ended[r.o.Attempt]
	}
	return r.over && r.final > 0 && r.ended[r.final]
}

func (r *logReader) isGroup() bool {
	j := r.q.jobs.get(r.ref.Number) // groups are cached by projectOf
	return j != nil && !r.ref.Task
}
