package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// DeliverOptions say which results somebody is brought, and how hard it is tried.
type DeliverOptions struct {
	Name    string        // under which the broker remembers how far it came
	Project string        // "" = all
	Backoff time.Duration // before the second try, doubled for each; default 1 s
	Longest time.Duration // between two tries; default 5 min
	Ready   func()        // called once it is sure to miss none; may be nil
	GiveUp  time.Duration // a result this old that is refused once more is left out; default 3 days
}

// Delivered is one result as it was stored.
type Delivered struct {
	ID   string // the same at each try, and of no other result
	Try  int    // 1 is the first
	Data json.RawMessage
}

// DeliverResults brings the results that are stored from its first call on, one after the other, until ctx ends. One that
// the receiver refuses is tried again, later each time, and those behind it wait: a receiver that is away is not flooded
// when it is back. The broker remembers the place under o.Name, so that a crash loses none; one whose try the crash cut
// short comes again.
func (q *Queue) DeliverResults(ctx context.Context, o DeliverOptions, bring func(context.Context, Delivered) error) error {
	if err := checkToken("name", o.Name); err != nil {
		return err
	}
	o = o.withDefaults()
	const patience = 20 * time.Second // one try, and the broker's answer to it: after a crash, so long a wait
	cfg := jetstream.ConsumerConfig{
		Durable: "deliver_" + o.Name, FilterSubjects: resultFilters(ResultOptions{Project: o.Project}), DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: patience, MaxAckPending: 1, MaxDeliver: -1,
	}
	consumer, err := q.js.CreateConsumer(ctx, StreamResults, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return fmt.Errorf("deliver results as %s: that name is in use for other projects; take another", o.Name)
	}
	if err != nil {
		return fmt.Errorf("deliver results as %s: %w", o.Name, streamError(err))
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return fmt.Errorf("deliver results as %s: %w", o.Name, err)
	}
	defer messages.Stop()
	if o.Ready != nil {
		o.Ready()
	}
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case ctx.Err() != nil:
			return nil // the caller wants no more
		case errors.Is(err, jetstream.ErrMsgIteratorClosed), errors.Is(err, jetstream.ErrConsumerDeleted):
			return fmt.Errorf("deliver results as %s: %w", o.Name, err)
		case err != nil:
			q.log.Debug("no_result_to_deliver", "err", err) // the broker is away; the iterator waits for it
			continue
		}
		if err := q.deliver(ctx, m, o, bring); err != nil && ctx.Err() == nil {
			q.log.Warn("delivery_not_noted", "err", err) // it comes again
		}
	}
}

func (o DeliverOptions) withDefaults() DeliverOptions {
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.Longest <= 0 {
		o.Longest = 5 * time.Minute
	}
	if o.GiveUp <= 0 {
		o.GiveUp = 3 * day
	}
	return o
}

func (q *Queue) deliver(ctx context.Context, m jetstream.Msg, o DeliverOptions, bring func(context.Context, Delivered) error) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	d := Delivered{ID: "result-" + strconv.FormatUint(meta.Sequence.Stream, 10), Try: int(min(meta.NumDelivered, 1<<20)), Data: m.Data()}
	err = bring(ctx, d)
	switch {
	case err == nil:
		return m.DoubleAck(ctx)
	case ctx.Err() != nil:
		return m.Nak() // the next one to start goes on with it at once
	case q.now().Sub(meta.Timestamp) > o.GiveUp:
		q.log.Error("result_not_delivered", "id", d.ID, "subject", m.Subject(), "tries", d.Try, "err", err)
		return m.Term()
	}
	wait := o.after(d.Try)
	q.log.Warn("result_refused", "id", d.ID, "subject", m.Subject(), "try", d.Try, "again_in", wait.String(), "err", err)
	return m.NakWithDelay(wait)
}

// after is how long to wait after so many tries.
func (o DeliverOptions) after(tries int) time.Duration {
	wait := o.Backoff
	for range min(tries-1, 30) {
		if wait *= 2; wait >= o.Longest {
			return o.Longest
		}
	}
	return min(wait, o.Longest)
}
