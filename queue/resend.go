package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// sureFor is how long a job may be sent again under its message id without a look: the broker still knows the id of
	// the first try.
	sureFor = duplicateWindow - 30*time.Second

	// lookBack is how much further back than its first try the message is looked for.
	lookBack = time.Minute
)

// errUnsure ends the time in which a message may be sent again without a look.
var errUnsure = errors.New("the broker has not answered for so long that it may have forgotten the first try")

// publishJob stores a job's message once, however long the broker is away: as soon as it may have forgotten the id of the
// first try, the stream itself is asked whether that arrived.
func (q *Queue) publishJob(ctx context.Context, m *nats.Msg, sure time.Duration) (*jetstream.PubAck, error) {
	for first := time.Now(); ; {
		try, cancel := context.WithTimeoutCause(ctx, sure, errUnsure)
		ack, err := q.publish(try, m)
		unsure := errors.Is(context.Cause(try), errUnsure)
		cancel()
		if err == nil || ctx.Err() != nil || !unsure {
			return ack, err
		}
		seq, err := q.findSent(ctx, m, first)
		switch {
		case err != nil:
			return nil, err
		case seq > 0:
			return &jetstream.PubAck{Stream: StreamJobs, Sequence: seq, Duplicate: true}, nil
		}
		q.log.Info("submit_again", "subject", m.Subject, "since", time.Since(first).Round(time.Second))
	}
}

// findSent looks for a message that was first sent at that time, by its id; 0: it is not there. The time is turned into
// one of the broker's: the two clocks need not agree.
func (q *Queue) findSent(ctx context.Context, m *nats.Msg, first time.Time) (seq uint64, err error) {
	id := m.Header.Get(headerMsgID)
	err = retry(ctx, func() error {
		s, err := q.js.Stream(ctx, StreamJobs)
		if err != nil {
			return err
		}
		since := s.CachedInfo().TimeStamp.Add(-time.Since(first) - lookBack)
		batch, err := q.batch(ctx, StreamJobs, map[string]any{"start_time": since, "batch": scanBatch, "next_by_subj": m.Subject})
		for ; err == nil && len(batch) > 0; batch, err = q.batch(ctx, StreamJobs, map[string]any{
			"seq": batch[len(batch)-1].Seq + 1, "batch": scanBatch, "next_by_subj": m.Subject,
		}) {
			for _, sent := range batch {
				if sent.Header.Get(headerMsgID) == id {
					seq = sent.Seq
					return nil
				}
			}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look whether the job has arrived: %w", err)
	}
	return seq, nil
}
