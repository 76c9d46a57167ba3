package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// laneIdle ends the consumer of a lane on which nobody pulls any more. Its messages stay; the consumer is made again by
// whoever needs it.
const laneIdle = 24 * time.Hour

// changeLull is the least time between two tellings of changed lanes, and lullEach what each lane there is adds to it:
// whoever is told looks at all of them, and with fifty workers and a thousand lanes that a matrix has just made, the
// broker would do nothing else. With 1,500 lanes it is a third of a second.
const (
	changeLull = 20 * time.Millisecond
	lullEach   = 200 * time.Microsecond
)

// LaneInfo is one lane in use.
type LaneInfo struct {
	Lane    job.Lane
	Shape   job.Shape // what a machine must have free
	Pending int       // messages nobody has been given, as of the last RefreshPending

	heat heat
}

// laneValue is what a lane's key holds: an announcement.
type laneValue struct {
	DueIn time.Duration `json:"due_in_ns"` // from the moment of the announcement to the job
}

// laneTable is what this process knows of lanes and shapes, kept fresh by a watch on their bucket.
type laneTable struct {
	mu      sync.Mutex
	lanes   map[job.Lane]*LaneInfo
	shapes  map[job.ShapeID]job.Shape
	list    []LaneInfo    // the answer of Lanes; nil: to be made
	changed chan struct{} // closed and made anew on each change

	told  time.Time   // when that was last done
	later *time.Timer // nil, or to do it again

	cancel context.CancelFunc
	done   chan struct{}
}

func newLaneTable() *laneTable {
	return &laneTable{
		lanes: map[job.Lane]*LaneInfo{}, shapes: map[job.ShapeID]job.Shape{}, changed: make(chan struct{}),
	}
}

// Lanes lists the lanes in use whose shape is known, in no particular order of importance: band, shape, project. The
// caller may change the list.
func (q *Queue) Lanes() []LaneInfo {
	t := q.lanes
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = t.sorted()
	}
	return slices.Clone(t.list)
}

// sorted is the list as it is now; it is made once for each change, since a worker asks for it at every turn. t.mu is held.
func (t *laneTable) sorted() []LaneInfo {
	all := make([]LaneInfo, 0, len(t.lanes))
	for _, l := range t.lanes {
		shape, ok := t.shapes[l.Lane.Shape]
		if !ok {
			continue
		}
		info := *l
		info.Shape = shape
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b LaneInfo) int {
		return cmp.Or(cmp.Compare(a.Lane.Band, b.Lane.Band), strings.Compare(string(a.Lane.Shape), string(b.Lane.Shape)),
			strings.Compare(a.Lane.Project, b.Lane.Project))
	})
	return all
}

// LanesChanged is closed at the next change of Lanes: a lane more or less, or one that got a job after a quiet time.
func (q *Queue) LanesChanged() <-chan struct{} {
	q.lanes.mu.Lock()
	defer q.lanes.mu.Unlock()
	return q.lanes.changed
}

// follow reads the bucket as it is and then keeps the table fresh until close.
func (t *laneTable) follow(ctx context.Context, q *Queue) error {
	kv, err := q.js.KeyValue(ctx, BucketShapes)
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watch, err := kv.WatchAll(run)
	if err != nil {
		cancel()
		return err
	}
	for {
		select {
		case e, ok := <-watch.Updates():
			if !ok || e == nil { // nil: that was all there is now
				t.cancel, t.done = cancel, make(chan struct{})
				go t.run(run, watch)
				return nil
			}
			t.apply(e, max(q.now().Sub(e.Created()), 0))
		case <-ctx.Done():
			cancel()
			return errors.Join(ctx.Err(), watch.Stop())
		}
	}
}

func (t *laneTable) run(ctx context.Context, watch jetstream.KeyWatcher) {
	defer close(t.done)
	defer func() { _ = watch.Stop() }() // fails only when the connection is gone
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-watch.Updates():
			if !ok {
				return
			}
			if e != nil {
				t.apply(e, 0)
			}
		}
	}
}

func (t *laneTable) close() {
	if t.cancel == nil {
		return
	}
	t.cancel()
	<-t.done
}

// apply takes one change of the bucket, made so long ago, into the table.
func (t *laneTable) apply(e jetstream.KeyValueEntry, age time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := strings.CutPrefix(e.Key(), shapePrefix); ok {
		var s job.Shape
		if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &s) != nil {
			return // shapes are never taken away
		}
		t.shapes[job.ShapeID(id)] = s
		t.signal()
		return
	}
	lane, ok := parseLaneTokens(e.Key(), lanePrefix)
	if !ok {
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		delete(t.lanes, lane)
		t.signal()
		return
	}
	var v laneValue
	if json.Unmarshal(e.Value(), &v) != nil {
		return
	}
	t.note(lane, v.DueIn-age).heat.rev = e.Revision()
	t.signal()
}

// note takes down that a lane gets a job in so long.
func (t *laneTable) note(lane job.Lane, in time.Duration) *LaneInfo {
	info := t.lanes[lane]
	if info == nil {
		info = &LaneInfo{Lane: lane}
		t.lanes[lane] = info
	}
	info.heat.warm(in, time.Now())
	t.list = nil
	return info
}

// nudge makes workers look at the lanes again: a project may have got room.
func (t *laneTable) nudge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.signal()
}

// signal tells of a change: at once after a quiet time, otherwise together with what else changes in the next moment. A
// worker looks at all its lanes each time; a matrix that makes a thousand lanes must not make it look a thousand times.
// t.mu is held.
func (t *laneTable) signal() {
	t.list = nil
	switch wait := changeLull + time.Duration(len(t.lanes))*lullEach - time.Since(t.told); {
	case wait <= 0:
		t.tell()
	case t.later == nil:
		t.later = time.AfterFunc(wait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.later = nil
			t.tell()
		})
	}
}

func (t *laneTable) tell() {
	t.told = time.Now()
	close(t.changed)
	t.changed = make(chan struct{})
}

// heat is what is known of a lane's jobs; ok is false for an unknown lane.
func (t *laneTable) heat(lane job.Lane) (h heat, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info := t.lanes[lane]
	if info == nil {
		return heat{}, false
	}
	return info.heat, true
}

// heats is heat of many, in one go.
func (t *laneTable) heats(wants []Want) []heat {
	all := make([]heat, len(wants))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range wants {
		if info := t.lanes[w.Lane]; info != nil {
			all[i] = info.heat
		}
	}
	return all
}

func (t *laneTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lanes)
}

// ensureLane makes sure that workers know the lane and watch it when its message comes, in so long, before that message
// is sent. A lane that is known and hot costs nothing.
func (q *Queue) ensureLane(ctx context.Context, lane job.Lane, shape job.Shape, in time.Duration) error {
	h, known := q.lanes.heat(lane)
	if known && h.covers(in, time.Now()) {
		return nil
	}
	if !known {
		if err := q.createLane(ctx, lane, shape); err != nil {
			return err
		}
	}
	body, err := json.Marshal(laneValue{DueIn: in})
	if err != nil {
		return err
	}
	m := newMsg("$KV."+BucketShapes+"."+laneKey(lane), body)
	if _, err := q.publish(ctx, m); err != nil {
		return fmt.Errorf("announce lane %s: %w", laneKey(lane), err)
	}
	q.lanes.mu.Lock()
	q.lanes.note(lane, in)
	q.lanes.mu.Unlock()
	return nil
}

// createLane writes the shape and makes the consumer; the lane's own key, which workers look for, comes last.
func (q *Queue) createLane(ctx context.Context, lane job.Lane, shape job.Shape) error {
	if n := q.lanes.count(); n >= q.opts.MaxLanes {
		return fmt.Errorf("%w: there are %d combinations of priority band, requirements and project and this job would "+
			"be one more; use rounder memory figures or fewer constraints, or wait until others are through", ErrTooManyLanes, n)
	}
	body, err := json.Marshal(shape)
	if err != nil {
		return err
	}
	_, err = q.casKey(ctx, BucketShapes, shapePrefix+string(shape.ID), body, 0, 0)
	if err != nil && !errors.Is(err, errConflict) {
		return err
	}
	return q.createConsumer(ctx, lane)
}

// createConsumer is idempotent. It creates only: an update by an older version could switch the priority policy off
// for everybody.
func (q *Queue) createConsumer(ctx context.Context, lane job.Lane) error {
	_, err := q.js.CreateConsumer(ctx, StreamLanes, q.laneConfig(lane))
	if err == nil || errors.Is(err, jetstream.ErrConsumerExists) {
		return nil
	}
	var api *jetstream.APIError
	const maximumConsumers = 10026
	if errors.As(err, &api) && api.ErrorCode == maximumConsumers {
		return fmt.Errorf("%w: the broker allows no more consumers on %s (%w)", ErrTooManyLanes, StreamLanes, err)
	}
	// A consumer made while one of its name is being deleted can lose its folder to that: it then serves, and every later
	// "create" of it fails (nats-server 2.15, until it is restarted). That it is there is what counts.
	if _, here := q.js.Consumer(ctx, StreamLanes, laneConsumer(lane)); here == nil {
		return nil
	}
	return fmt.Errorf("consumer of lane %s: %w", laneKey(lane), err)
}

// laneConfig is the one place that says how a lane is served. MaxAckPending and MaxWaiting are lifted because a lane
// may have thousands of running jobs and waiting workers; MaxDeliver is never used, since a job that was returned often
// is not a job that failed often.
func (q *Queue) laneConfig(lane job.Lane) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: laneConsumer(lane), FilterSubject: laneSubject(lane), DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.opts.AckWait, MaxDeliver: -1, MaxAckPending: -1,
		MaxWaiting: 8192, InactiveThreshold: laneIdle,
		PriorityPolicy: jetstream.PriorityPolicyPrioritized, PriorityGroups: []string{pullGroup},
	}
}
