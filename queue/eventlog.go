package queue

import (
	"context"
	"iter"
	"time"
)

// LeaseEvent is the kind of the events that tell who took what, and when it was given back.
const LeaseEvent = "lease"

// EventOptions say which events are wanted. Of New, From and Since the first that is set counts.
type EventOptions struct {
	Kind    string    // "" = all
	Project string    // "" = all, "_" = those of no project: of machines, of the fleet
	Since   time.Time // stored at or after; zero = all that are kept
	From    uint64    // this sequence and later ones; 0 = from the beginning; [ErrNotKept], [ErrNotYet]
	New     bool      // only those that come from now on
	Follow  bool      // go on with new ones as they come
}

// EventLog yields events in the order in which they were stored. It ends with the last one there is, or with Follow
// when ctx does. An error is the last thing it yields.
func (q *Queue) EventLog(ctx context.Context, o EventOptions) iter.Seq2[Event, error] {
	return values(q.EventEntries(ctx, o))
}

// EventEntries is [Queue.EventLog] with the place of each in the log, for who wants to go on there.
func (q *Queue) EventEntries(ctx context.Context, o EventOptions) iter.Seq2[Entry[Event], error] {
	from := start{Since: o.Since, From: o.From, New: o.New}
	subjects := []string{prefixEvents + orAny(o.Kind) + "." + orAny(o.Project)}
	return named("events", entries[Event](ctx, q, StreamEvents, subjects, from, o.Follow))
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
