package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// LeaseEvent is the kind of the events that tell who took what, and when it was given back.
const LeaseEvent = "lease"

// EventOptions say which events are wanted.
type EventOptions struct {
	Kind    string    // "" = all
	Project string    // "" = all, "_" = those of no project: of machines, of the fleet
	Since   time.Time // stored at or after; zero = all that are kept
	New     bool      // only those that come from now on
	Follow  bool      // go on with new ones as they come
}

// EventLog yields events in the order in which they were stored. It ends with the last one there is, or with Follow
// when ctx does. An error is the last thing it yields.
func (q *Queue) EventLog(ctx context.Context, o EventOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{prefixEvents + orAny(o.Kind) + "." + orAny(o.Project)}}
		switch {
		case o.New:
			cfg.DeliverPolicy = jetstream.DeliverNewPolicy
		case !o.Since.IsZero():
			cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Since
		}
		for m, err := range q.read(ctx, StreamEvents, cfg, o.Follow) {
			if err != nil {
				yield(Event{}, fmt.Errorf("events: %w", err))
				return
			}
			var e Event
			if err := json.Unmarshal(m.Data(), &e); err != nil {
				q.log.Warn("event_not_readable", "subject", m.Subject(), "err", err)
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func orAny(name string) string {
	if name == "" {
		return "*"
	}
	return token(name)
}

// Events lists the events of a kind ("" = all) since then (zero = all that are kept), oldest first.
func (q *Queue) Events(ctx context.Context, kind string, since time.Time) ([]Event, error) {
	var all []Event
	for e, err := range q.EventLog(ctx, EventOptions{Kind: kind, Since: since}) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}
