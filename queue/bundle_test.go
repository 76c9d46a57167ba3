package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
)

// patience bounds every wait of a test. It is a verdict on a hang, not on speed.
const patience = 40 * time.Second

// bundle is a broker, or a cluster of them, with one queue on it.
type bundle struct {
	t      *testing.T
	ctx    context.Context
	broker *natstest.Broker
	url    func() string
	opts   Options
	q      *Queue
}

// quick are options with timings short enough for a test and long enough for a loaded machine.
func quick() Options { return Options{ClaimTTL: 60 * time.Second, AckWait: 4 * time.Second} }

func setup(t *testing.T, opts Options) *bundle {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	b := &bundle{t: t, ctx: ctx, broker: natstest.New(t), opts: opts}
	b.url = b.broker.URL
	b.q = b.open()
	return b
}

func (b *bundle) connect() *nats.Conn {
	b.t.Helper()
	nc, err := Connect(b.ctx, ConnectOptions{URL: b.url(), Name: b.t.Name()})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// open is another process's door to the same broker.
func (b *bundle) open() *Queue {
	b.t.Helper()
	opts := b.opts
	opts.LogBytes = 1 << 30
	if os.Getenv("BERTH_TEST_LOG") != "" {
		opts.Logger = slog.New(slog.NewTextHandler(testWriter{b.t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	q, err := Open(b.ctx, b.connect(), opts)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(q.Close)
	return q
}

// testWriter sends logs to the test that is running.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// background runs f until the test ends, and fails the test with its error.
func (b *bundle) background(f func(ctx context.Context) error) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			b.t.Errorf("in the background: %v", err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

// machine is a worker without GPUs: a session and a puller.
type machine struct {
	*bundle
	q *Queue
	s *Session
	p *Puller
}

var instances sync.Map

func (b *bundle) machine(name string) *machine { return b.machineOn(b.open(), name) }

func (b *bundle) machineOn(q *Queue, name string) *machine {
	b.t.Helper()
	n, _ := instances.LoadOrStore(name+b.t.Name(), new(counter))
	s, err := q.OpenSession(b.ctx, name, fmt.Sprint("i", n.(*counter).next()))
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := q.NewPuller(s)
	if err != nil {
		b.t.Fatal(err)
	}
	m := &machine{bundle: b, q: q, s: s, p: p}
	b.t.Cleanup(func() { _ = s.Close(context.WithoutCancel(b.ctx)) })
	b.t.Cleanup(func() { _ = p.Close(context.WithoutCancel(b.ctx)) })
	return m
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

// die ends the machine as kill -9 would: nothing is said to the broker, the session runs out by itself.
func (m *machine) die() {
	m.s.Detach()
	m.q.nc.Close()
}

// wants are all lanes there are, in the order of Lanes.
func (m *machine) wants() []Want {
	var all []Want
	for _, l := range m.q.Lanes() {
		all = append(all, Want{Lane: l.Lane})
	}
	return all
}

// next waits for a job on any lane, as a worker does that looks at the lanes again when they change.
func (m *machine) next() *Delivery {
	m.t.Helper()
	d, err := m.tryNext(patience)
	if err != nil {
		m.t.Fatalf("next: %v", err)
	}
	return d
}

func (m *machine) tryNext(within time.Duration) (*Delivery, error) {
	ctx, cancel := context.WithTimeout(m.ctx, within)
	defer cancel()
	return m.tryNextIn(ctx)
}

func (m *machine) tryNextIn(ctx context.Context) (*Delivery, error) {
	for {
		changed := m.q.LanesChanged()
		wants := m.wants()
		turn, stop := context.WithCancel(ctx)
		watch := make(chan struct{})
		go func() {
			defer close(watch)
			select {
			case <-changed:
				stop()
			case <-turn.Done():
			}
		}()
		d, err := m.p.Next(turn, wants)
		stop()
		<-watch
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return d, err
		}
	}
}

func (m *machine) claim() *Claim {
	m.t.Helper()
	c, err := m.next().Claim(m.ctx, []string{"GPU-0"})
	if err != nil {
		m.t.Fatalf("claim: %v", err)
	}
	return c
}

// newJob is a job that needs little.
func newJob(name string) job.Job {
	return job.Job{
		Project: "lab", User: "ada", Spec: job.Spec{Name: name, Command: job.Command{"true"}},
		Requirements: job.Requirements{GPUs: 1, GPUMemoryMB: 4096},
	}
}

func (b *bundle) submit(j job.Job) Ref {
	b.t.Helper()
	r, err := b.q.Submit(b.ctx, j)
	if err != nil {
		b.t.Fatalf("submit: %v", err)
	}
	return JobRef(r.Number)
}

func (b *bundle) record(ref Ref) *job.Record {
	b.t.Helper()
	rec, _, err := b.q.records.read(b.ctx, ref, true)
	if err != nil {
		b.t.Fatal(err)
	}
	return rec
}

// results are all results of a job, in order.
func (b *bundle) results(ref Ref) []job.Result {
	b.t.Helper()
	var all []job.Result
	for r, err := range b.q.Results(b.ctx, ResultOptions{Ref: ref}) {
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// runs counts the attempt messages of a job.
func (b *bundle) runs(ref Ref) int {
	b.t.Helper()
	n, err := b.q.countSubjects(b.ctx, StreamRuns, prefixRuns+"lab."+ref.String()+".*")
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// onLanes counts the messages that lanes hold.
func (b *bundle) onLanes() int {
	b.t.Helper()
	n, err := b.q.countSubjects(b.ctx, StreamLanes, prefixLanes+">")
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bundle) wait(ref Ref) job.Result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	r, err := b.q.WaitResult(ctx, ref)
	if err != nil {
		b.t.Fatalf("wait for %s: %v", ref, err)
	}
	return r
}

// eventually polls a condition that has no event of its own.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

var succeeded = job.Result{Outcome: job.OutcomeSucceeded, Exit: &job.Exit{}}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
