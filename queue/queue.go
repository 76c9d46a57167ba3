package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options are the settings of the queue; zero values are the defaults.
type Options struct {
	Replicas       int           // of every stream: 1 (default), 3, 5
	ClaimTTL       time.Duration // a dead worker's jobs are handed on after this; default 5 min, at least 2 s
	AckWait        time.Duration // when a job is looked at again; default 30 s, shorter where ClaimTTL is
	SystemAttempts int           // gpu_fault and machine_lost together before a job is dead; default 3
	MaxLanes       int           // default DefaultMaxLanes
	NearFor        time.Duration // how long a job waits for the GPUs of the one it names in same_gpu_as; default 1 min
	Window         int           // tasks of one group on lanes at a time; default 512
	LogBytes       int64         // size of the log stream; default 10 GiB, less where the disk is small
	Logger         *slog.Logger  // default: none
	Now            func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Replicas <= 0 {
		o.Replicas = 1
	}
	if o.ClaimTTL <= 0 {
		o.ClaimTTL = 5 * time.Minute
	}
	o.ClaimTTL = max(o.ClaimTTL, 2*time.Second) // the broker's TTLs count in seconds
	if o.AckWait <= 0 {
		o.AckWait = min(30*time.Second, max(o.ClaimTTL/2, time.Second))
	}
	if o.SystemAttempts <= 0 {
		o.SystemAttempts = 3
	}
	if o.MaxLanes <= 0 {
		o.MaxLanes = DefaultMaxLanes
	}
	if o.NearFor <= 0 {
		o.NearFor = time.Minute
	}
	if o.Window <= 0 {
		o.Window = 512
	}
	if o.LogBytes <= 0 {
		o.LogBytes = 10 << 30
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Queue is one process's door to the wire. It is safe for use by many goroutines.
type Queue struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	opts Options
	log  *slog.Logger

	records records
	jobs    *jobCache // groups
	fresh   *jobCache // small ones that this clerk has just dispatched: it often gets them itself
	groups  groupStates
	lanes   *laneTable

	projects *projectTable

	// failpoint, when a test sets it, is asked before and after each step that a crash could separate from the next.
	failpoint func(step string) error
}

// Open sets the broker up where that is needed and starts to follow the lanes: for workers. Close ends it; the
// connection stays the caller's.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Queue, error) {
	q, err := newQueue(nc, o)
	if err != nil {
		return nil, err
	}
	if err := EnsureTopology(ctx, q.js, q.opts); err != nil {
		return nil, fmt.Errorf("set up the broker: %w", err)
	}
	if err := q.lanes.follow(ctx, q); err != nil {
		return nil, fmt.Errorf("follow the lanes: %w", err)
	}
	if err := q.projects.follow(ctx, q, q.lanes.nudge); err != nil {
		q.lanes.close()
		return nil, fmt.Errorf("follow the projects: %w", err)
	}
	return q, nil
}

// OpenClient is for those who submit and ask: it runs nothing in the background. On a broker that nobody has set up
// yet it does so if it may, so that jobs can be submitted before the first worker comes.
func OpenClient(ctx context.Context, nc *nats.Conn, o Options) (*Queue, error) {
	q, err := newQueue(nc, o)
	if err != nil {
		return nil, err
	}
	_, err = q.js.Stream(ctx, StreamJobs)
	switch {
	case err == nil:
		return q, nil
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, streamError(err)
	}
	if err := EnsureTopology(ctx, q.js, q.opts); err != nil {
		return nil, fmt.Errorf("%w and they could not be created; start a worker or `berth up` first: %w", ErrNoStreams, err)
	}
	return q, nil
}

func newQueue(nc *nats.Conn, o Options) (*Queue, error) {
	o = o.withDefaults()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	q := &Queue{nc: nc, js: js, opts: o, log: o.Logger, jobs: newJobCache(), fresh: newJobCache(), lanes: newLaneTable(), projects: newProjectTable()}
	q.records = records{q: q}
	return q, nil
}

// Close ends what Open started and waits for it.
func (q *Queue) Close() {
	q.projects.close()
	q.lanes.close()
	q.js.CleanupPublisher()
}

// Options are the settings in force.
func (q *Queue) Options() Options { return q.opts }

func (q *Queue) now() time.Time { return q.opts.Now() }

// step is where a test may let the process "crash".
func (q *Queue) step(name string) error {
	if q.failpoint == nil {
		return nil
	}
	return q.failpoint(name)
}
