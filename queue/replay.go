package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Entry is one value of a log with its place there: whoever has worked on it goes on with Seq+1, also after a crash.
type Entry[T any] struct {
	Seq   uint64    // in its stream, across all projects: grows, may leave some out
	At    time.Time // when it was stored
	Value T
}

// start is where the reading of a log begins: the zero value is the first message that is kept.
type start struct {
	Since time.Time
	From  uint64
	New   bool
}

// startAt sets where a consumer begins. A sequence that is not there any more is an error, as is one that is not to be expected
// yet: the one would leave something out, and the other wait for ever, and nobody would hear of it.
func (q *Queue) startAt(ctx context.Context, stream string, from start, cfg *jetstream.OrderedConsumerConfig) error {
	switch {
	case from.New:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	case from.From > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from.From
		return q.checkKept(ctx, stream, from.From)
	case !from.Since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &from.Since
	}
	return nil
}

func (q *Queue) checkKept(ctx context.Context, stream string, from uint64) error {
	state, err := q.streamState(ctx, stream, "")
	switch {
	case err != nil:
		return err
	case from < state.FirstSeq && state.Msgs == 0:
		return fmt.Errorf("%w: %d, and none of %s is; the next will be %d", ErrNotKept, from, stream, state.LastSeq+1)
	case from < state.FirstSeq:
		return fmt.Errorf("%w: %d; %s begins with %d, stored %s", ErrNotKept, from, stream, state.FirstSeq, state.FirstTime.UTC().Format(time.RFC3339))
	case from > state.LastSeq+1:
		return fmt.Errorf("%w: %d; the last of %s is %d, is this the broker it was read from?", ErrNotYet, from, stream, state.LastSeq)
	}
	return nil
}

// entries yields what an ordered consumer reads. An error is the last thing it yields; a message that cannot be read is
// left out, and the log says so.
func entries[T any](ctx context.Context, q *Queue, stream string, subjects []string, from start, follow bool) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		cfg := jetstream.OrderedConsumerConfig{FilterSubjects: subjects}
		begin := func() error { return q.startAt(ctx, stream, from, &cfg) }
		err := begin()
		if follow && err != nil { // whoever follows has patience
			err = retry(ctx, begin)
		}
		if err != nil {
			yield(Entry[T]{}, err)
			return
		}
		for m, err := range q.read(ctx, stream, cfg, follow) {
			if err != nil {
				yield(Entry[T]{}, err)
				return
			}
			e, err := entryOf[T](m)
			if err != nil {
				q.log.Warn("message_not_readable", "subject", m.Subject(), "err", err)
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func entryOf[T any](m jetstream.Msg) (Entry[T], error) {
	meta, err := m.Metadata()
	if err != nil {
		return Entry[T]{}, err
	}
	e := Entry[T]{Seq: meta.Sequence.Stream, At: meta.Timestamp}
	return e, json.Unmarshal(m.Data(), &e.Value)
}

// values leaves the places out.
func values[T any](all iter.Seq2[Entry[T], error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for e, err := range all {
			if !yield(e.Value, err) {
				return
			}
		}
	}
}

// named says of what an error is.
func named[T any](what string, all iter.Seq2[Entry[T], error]) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		for e, err := range all {
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
