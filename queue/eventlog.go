package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// LeaseEvent is the kind of the events that tell who took what, and when it was given back.
const LeaseEvent = "lease"

// Events lists the events of a kind ("" = all) since then (zero = all that are kept), oldest first.
func (q *Queue) Events(ctx context.Context, kind string, since time.Time) ([]Event, error) {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{prefixEvents + ">"}}
	if kind != "" {
		cfg.FilterSubjects = []string{prefixEvents + token(kind) + ".>"}
	}
	if !since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	var all []Event
	for m, err := range q.read(ctx, StreamEvents, cfg, false) {
		if err != nil {
			return all, fmt.Errorf("events: %w", err)
		}
		var e Event
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			q.log.Warn("event_not_readable", "subject", m.Subject(), "err", err)
			continue
		}
		all = append(all, e)
	}
	return all, nil
}
