package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// reservationTTL is how long a reservation outlives the last word of its machine.
const reservationTTL = 15 * time.Second

// headLooks bounds how many messages of a lane are looked at for the first one that waits.
const headLooks = 64

// Reservation says that one machine drains some of its GPUs towards a wide job. There is at most one for a job, since
// there is one key for it, and it ends by its TTL when its machine falls silent.
type Reservation struct {
	Job     string    `json:"job"` // number[.index]
	Machine string    `json:"machine"`
	Session string    `json:"session"`
	FreeAt  time.Time `json:"free_at"` // when the machine expects to have the GPUs
	GPUs    []string  `json:"gpus"`    // UUIDs
	At      time.Time `json:"at"`
}

// Reserve writes the reservation of a job. rev is of the one it replaces, 0 for none; ErrStepBack: another machine was
// faster. Repeat it within 15 s to keep it.
func (q *Queue) Reserve(ctx context.Context, ref Ref, r Reservation, rev uint64) (uint64, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("reservation of %s: %w", ref, err)
	}
	next, err := q.casKey(ctx, BucketReservations, ref.String(), body, rev, reservationTTL)
	if errors.Is(err, errConflict) {
		return 0, fmt.Errorf("reservation of %s: %w", ref, ErrStepBack)
	}
	return next, err
}

// Reservation reads who drains towards a job. Nobody: a zero Reservation, and the revision that Reserve wants.
func (q *Queue) Reservation(ctx context.Context, ref Ref) (Reservation, uint64, error) {
	s, err := q.getLast(ctx, "KV_"+BucketReservations, "$KV."+BucketReservations+"."+ref.String(), true)
	switch {
	case errors.Is(err, ErrNotFound):
		return Reservation{}, 0, nil
	case err != nil:
		return Reservation{}, 0, fmt.Errorf("reservation of %s: %w", ref, err)
	case isMarker(s):
		return Reservation{}, s.Seq, nil
	}
	var r Reservation
	if err := json.Unmarshal(s.Data, &r); err != nil {
		return Reservation{}, s.Seq, nil //nolint:nilerr // nobody's that can be understood: it may be replaced
	}
	return r, s.Seq, nil
}

// Reservations lists what machines keep for wide jobs now.
func (q *Queue) Reservations(ctx context.Context) ([]Reservation, error) {
	var all []Reservation
	err := q.eachKey(ctx, BucketReservations, func(_ string, value []byte) {
		var r Reservation
		if json.Unmarshal(value, &r) == nil && r.Job != "" {
			all = append(all, r)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reservations: %w", err)
	}
	return all, nil
}

// Unreserve gives a reservation up, if it is still the one with that revision.
func (q *Queue) Unreserve(ctx context.Context, ref Ref, rev uint64) error {
	m := newMsg("$KV."+BucketReservations+"."+ref.String(), nil)
	m.Header.Set(headerKVOp, "DEL")
	m.Header.Set(headerTTL, strconv.Itoa(int(markerTTL/time.Second)))
	_, err := q.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(rev))
	if isWrongLast(err) {
		return nil
	}
	return err
}

// LaneCounts is how many jobs each lane holds, waiting or running; lanes without any are absent. It is one request.
func (q *Queue) LaneCounts(ctx context.Context) (map[job.Lane]int, error) {
	state, err := q.streamState(ctx, StreamLanes, prefixLanes+">")
	if err != nil {
		return nil, fmt.Errorf("count the lanes: %w", err)
	}
	counts := make(map[job.Lane]int, len(state.Subjects))
	for subject, n := range state.Subjects {
		if lane, ok := parseLaneSubject(subject); ok {
			counts[lane] = int(min(n, 1<<40))
		}
	}
	return counts, nil
}

// Head is the job that waits at the front of a lane.
type Head struct {
	Ref          Ref
	QueuedAt     time.Time
	Requirements job.Requirements
}

// LaneHead finds the first job of a lane that nobody runs. It looks at the lane's messages from its oldest one that is
// not acknowledged, without taking any.
func (q *Queue) LaneHead(ctx context.Context, lane job.Lane) (Head, bool, error) {
	c, err := q.js.Consumer(ctx, StreamLanes, laneConsumer(lane))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return Head{}, false, nil
	}
	if err != nil {
		return Head{}, false, fmt.Errorf("head of lane %s: %w", laneKey(lane), err)
	}
	info := c.CachedInfo()
	if info.NumPending == 0 && info.NumAckPending == 0 && info.NumRedelivered == 0 {
		return Head{}, false, nil
	}
	seq := info.AckFloor.Stream + 1
	for range headLooks {
		s, err := q.getMsg(ctx, StreamLanes, map[string]any{"seq": seq, "next_by_subj": laneSubject(lane)}, false)
		if errors.Is(err, ErrNotFound) {
			return Head{}, false, nil
		}
		if err != nil {
			return Head{}, false, fmt.Errorf("head of lane %s: %w", laneKey(lane), err)
		}
		head, waits, err := q.waiting(ctx, s.Data)
		if err != nil || waits {
			return head, waits, err
		}
		seq = s.Seq + 1
	}
	return Head{}, false, nil
}

// waiting reports whether a lane message is about a job that still waits.
func (q *Queue) waiting(ctx context.Context, body []byte) (Head, bool, error) {
	msg, err := decodeLaneMessage(body)
	if err != nil {
		return Head{}, false, nil //nolint:nilerr // garbage waits for nothing
	}
	rec, _, err := q.records.read(ctx, msg.ref(), false)
	if err != nil {
		return Head{}, false, err
	}
	if judge(rec, msg.Epoch) != mayClaim {
		return Head{}, false, nil
	}
	return Head{Ref: msg.ref(), QueuedAt: msg.QueuedAt, Requirements: msg.Requirements}, true, nil
}
