package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Health is what a doctor wants to know of the broker and of who speaks to it.
type Health struct {
	Server  string        // the URL that answered
	Version string        // of the server
	RTT     time.Duration // of one ping
	Clock   time.Time     // the broker's, at Asked by ours (the middle of the request)
	Asked   time.Time

	Streams []StreamHealth
	Store   StoreUse
	// Undispatched are jobs that no clerk has put on a lane yet.
	Undispatched uint64
	// Skew is how far each machine's clock is ahead of the broker's (behind: negative), as of its last word; the time
	// the word took is in it.
	Skew map[string]time.Duration
}

// StreamHealth is one stream or bucket.
type StreamHealth struct {
	Name     string
	Missing  bool
	Messages uint64
	Bytes    uint64
	MaxBytes int64 // -1: none
	Replicas int   // asked for
	Behind   []string
	Leader   string // "" without a cluster, or without a leader
	Cluster  bool
}

// StoreUse is how much of the account's file storage is used, bytes; Limit -1 is none.
type StoreUse struct {
	Used  uint64
	Limit int64
}

// Health asks the broker. What it refuses to tell is absent.
func (q *Queue) Health(ctx context.Context) (Health, error) {
	h := Health{Server: q.nc.ConnectedUrlRedacted(), Version: q.nc.ConnectedServerVersion()}
	var err error
	if h.RTT, err = q.nc.RTT(); err != nil {
		return h, fmt.Errorf("ping the broker: %w", err)
	}
	for _, want := range streams(q.opts) {
		if err := h.addStream(ctx, q, want); err != nil {
			return h, err
		}
	}
	if account, err := q.js.AccountInfo(ctx); err == nil {
		h.Store = StoreUse{Used: account.Store, Limit: account.Limits.MaxStore}
	}
	if h.Undispatched, err = q.undispatched(ctx); err != nil {
		return h, err
	}
	return h, h.addSkew(ctx, q)
}

// undispatched counts the jobs that no clerk has looked at: all of them before the first worker came. Those that one
// has and keeps (groups, whose tasks it lets go bit by bit) are not among them.
func (q *Queue) undispatched(ctx context.Context) (uint64, error) {
	clerk, err := q.js.Consumer(ctx, StreamJobs, consumerClerk)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		state, err := q.streamState(ctx, StreamJobs, "")
		return state.Msgs, err
	}
	if err != nil {
		return 0, fmt.Errorf("the clerk's consumer: %w", streamError(err))
	}
	return clerk.CachedInfo().NumPending, nil
}

func (h *Health) addStream(ctx context.Context, q *Queue, want jetstream.StreamConfig) error {
	before := q.now()
	s, err := q.js.Stream(ctx, want.Name)
	after := q.now()
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		h.Streams = append(h.Streams, StreamHealth{Name: want.Name, Missing: true})
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, streamError(err))
	}
	info := s.CachedInfo()
	h.Clock, h.Asked = info.TimeStamp, before.Add(after.Sub(before)/2)
	one := StreamHealth{
		Name: want.Name, Messages: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes, Replicas: info.Config.Replicas,
	}
	if c := info.Cluster; c != nil && c.Name != "" {
		one.Cluster, one.Leader = true, c.Leader
		for _, r := range c.Replicas {
			if r.Offline || !r.Current {
				one.Behind = append(one.Behind, r.Name)
			}
		}
	}
	h.Streams = append(h.Streams, one)
	return nil
}

// addSkew compares what each machine said the time was with when the broker got the word.
func (h *Health) addSkew(ctx context.Context, q *Queue) error {
	h.Skew = map[string]time.Duration{}
	err := q.eachLast(ctx, "KV_"+BucketMachines, "$KV."+BucketMachines+".>", false, func(msg jetstream.Msg) {
		var m Machine
		meta, err := msg.Metadata()
		if err == nil && json.Unmarshal(msg.Data(), &m) == nil && m.Name != "" {
			h.Skew[m.Name] = m.At.Sub(meta.Timestamp)
		}
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("machines: %w", err)
	}
	return nil
}
