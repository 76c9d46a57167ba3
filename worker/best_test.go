package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

// lean is a worker without processes: its own connection, session, puller and pool, and the worker's own way of asking
// and granting. A run takes until the gate lets it end.
type lean struct {
	*Worker
	fleet   *leanFleet
	name    string
	reading telemetry.Snapshot
	at      atomic.Pointer[time.Time]
}

// leanFleet is many of them on one broker.
type leanFleet struct {
	*house
	ctx  context.Context
	js   jetstream.JetStream
	mu   sync.Mutex
	ran  map[string]int // by machine
	gate chan struct{}  // closed: runs end at once
}

const (
	fleetSize = 50
	bestTenth = fleetSize / 10
)

func newLeanFleet(t *testing.T, noRanking bool) *leanFleet {
	t.Helper()
	h := newHouse(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	f := &leanFleet{house: h, ctx: ctx, ran: map[string]int{}, gate: make(chan struct{})}
	close(f.gate)
	var err error
	if f.js, err = jetstream.New(h.broker.Connect()); err != nil {
		t.Fatal(err)
	}
	var g sync.WaitGroup
	t.Cleanup(func() { cancel(); g.Wait() })
	for i := range fleetSize {
		w := f.lean(i, noRanking)
		g.Go(w.serve)
		if i == 0 {
			g.Go(func() { _ = w.cfg.Queue.RunClerk(ctx) }) // ends with ctx, and says nothing else
		}
	}
	return f
}

// lean makes machine i: one GPU; the first tenth are idle, the others are the busier the higher their number.
func (f *leanFleet) lean(i int, noRanking bool) *lean {
	f.t.Helper()
	name := fmt.Sprintf("m%02d", i)
	q, err := queue.Open(f.t.Context(), f.broker.Connect(), f.opts)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(q.Close)
	s, err := q.OpenSession(f.ctx, name, "1")
	if err != nil {
		f.t.Fatal(err)
	}
	l := &lean{fleet: f, name: name}
	d := telemetry.Device{UUID: "GPU-" + name, Name: "NVIDIA L4", MemoryTotalMB: 24000}
	pool, err := gpuslots.New(gpuslots.Options{
		Devices: []telemetry.Device{d}, Machine: name, Settle: -1, MaxUtil: 100, Foreign: "ignore", Now: l.now,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	used, util := int64(0), 0.0
	if i >= bestTenth {
		used, util = 9000+int64(100*i), float64(i)
	}
	free := d.MemoryTotalMB - used
	l.reading = telemetry.Snapshot{Devices: []telemetry.Device{d}, Health: telemetry.HealthOK, Readings: []telemetry.Reading{{
		UUID: d.UUID, UtilizationPercent: &util, MemoryUsedMB: &used, MemoryFreeMB: &free, MemoryTotalMB: &d.MemoryTotalMB,
	}}}
	w := &Worker{
		cfg: Config{Machine: name, Queue: q, NoRanking: noRanking, Now: l.now}.withDefaults(),
		log: slog.New(slog.DiscardHandler), pool: pool,
	}
	w.current.Store(s)
	if w.puller, err = q.NewPuller(s); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = w.puller.Close(context.WithoutCancel(f.ctx))
		s.Detach()
	})
	l.Worker = w
	l.look()
	return l
}

// look takes a reading of the GPU. Between two of them this machine's time stands, so that no reading is ever old.
func (l *lean) look() {
	now := time.Now()
	l.at.Store(&now)
	snap := l.reading
	snap.At = now
	l.pool.Observe(snap, now)
}

func (l *lean) now() time.Time { return *l.at.Load() }

func (l *lean) serve() {
	var runs sync.WaitGroup
	defer runs.Wait()
	for l.fleet.ctx.Err() == nil {
		d, err := l.next(l.fleet.ctx)
		if err != nil || d == nil {
			continue
		}
		alloc, err := l.grant(l.fleet.ctx, d)
		if err != nil {
			l.fleet.t.Errorf("%s was given job %s without room for it: %v", l.name, d.Ref(), err)
			_ = d.Return(l.fleet.ctx, 0, err.Error())
			continue
		}
		runs.Go(func() { l.run(d, alloc) })
	}
}

func (l *lean) run(d *queue.Delivery, alloc *gpuslots.Allocation) {
	defer func() {
		_ = alloc.Release() // it is held, and once
		l.look()
	}()
	claim, err := d.Claim(l.fleet.ctx, alloc.UUIDs())
	if err != nil {
		return
	}
	l.fleet.mu.Lock()
	l.fleet.ran[l.name]++
	gate := l.fleet.gate
	l.fleet.mu.Unlock()
	select {
	case <-gate:
	case <-l.fleet.ctx.Done():
	}
	if err := claim.Finish(context.WithoutCancel(l.fleet.ctx), job.Result{Outcome: job.OutcomeSucceeded, Exit: &job.Exit{}}); err != nil {
		l.fleet.t.Errorf("finish: %v", err)
	}
}

// claims is how many jobs have been claimed since ran was cleared.
func (f *leanFleet) claims() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ran := range f.ran {
		n += ran
	}
	return n
}

// lane is what the broker says of the one lane there is.
func (f *leanFleet) lane() jetstream.ConsumerInfo {
	f.t.Helper()
	s, err := f.js.Stream(f.t.Context(), queue.StreamLanes)
	if err != nil {
		f.t.Fatal(err)
	}
	var info jetstream.ConsumerInfo
	all := s.ListConsumers(f.t.Context())
	for c := range all.Info() {
		if c.Config.PriorityPolicy == jetstream.PriorityPolicyPrioritized {
			info = *c
		}
	}
	if err := all.Err(); err != nil {
		f.t.Fatal(err)
	}
	return info
}

// until waits for a state of the lane, which has no event of its own.
func (f *leanFleet) until(what string, ok func(jetstream.ConsumerInfo) bool) {
	f.t.Helper()
	var last jetstream.ConsumerInfo
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); pause(f.t.Context(), 10*time.Millisecond) {
		if last = f.lane(); ok(last) {
			return
		}
	}
	f.t.Fatalf("never: %s; the lane: %d wait, %d delivered, %d pulls", what, last.NumPending, last.NumAckPending, last.NumWaiting)
}

// one job after the other on an idle fleet; it returns how many of them the best tenth ran.
func (f *leanFleet) oneByOne(n int) (best int) {
	f.t.Helper()
	req := job.Requirements{GPUs: 1, GPUMemoryMB: 4096}
	f.result(queue.JobRef(f.submit(req))) // makes the lane
	f.until("a pull of every machine stands", func(c jetstream.ConsumerInfo) bool { return c.NumWaiting == fleetSize })
	f.mu.Lock()
	clear(f.ran)
	f.mu.Unlock()
	for range n {
		f.result(queue.JobRef(f.submit(req)))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, ran := range f.ran {
		if name < fmt.Sprintf("m%02d", bestTenth) {
			best += ran
		}
	}
	return best
}

// Jobs that arrive on an idle fleet of 50 machines go to the best tenth; a machine without room holds none.
func TestBestMachineFirst(t *testing.T) {
	f := newLeanFleet(t, false)
	const jobs = 60
	if best := f.oneByOne(jobs); best < jobs*95/100 {
		t.Errorf("the best tenth ran %d of %d jobs: %v", best, jobs, f.ran)
	} else {
		t.Logf("the best tenth ran %d of %d jobs", best, jobs)
	}

	f.mu.Lock()
	f.gate = make(chan struct{})
	gate := f.gate
	clear(f.ran)
	f.mu.Unlock()
	var numbers []uint64
	for range fleetSize + 10 {
		numbers = append(numbers, f.submit(job.Requirements{GPUs: 1, GPUMemoryMB: 4096}))
	}
	full := func(c jetstream.ConsumerInfo) bool {
		return f.claims() == fleetSize && c.NumAckPending == fleetSize && c.NumPending+uint64(c.NumRedelivered) >= 10
	}
	f.until("every machine has one job and the others wait on the lane", full)
	f.mu.Lock()
	for name, n := range f.ran {
		if n != 1 {
			t.Errorf("%s holds %d jobs and has room for one", name, n)
		}
	}
	held := len(f.ran)
	f.mu.Unlock()
	if held != fleetSize {
		t.Errorf("%d machines of %d hold a job", held, fleetSize)
	}
	close(gate)
	for _, n := range numbers {
		f.result(queue.JobRef(n))
	}
}

// With --no-ranking every machine asks alike: jobs go to whoever has waited longest, all over the fleet.
func TestNoRanking(t *testing.T) {
	f := newLeanFleet(t, true)
	const jobs = 60
	best := f.oneByOne(jobs)
	f.mu.Lock()
	defer f.mu.Unlock()
	if best > jobs/2 || len(f.ran) < fleetSize/2 {
		t.Errorf("without ranking the best tenth ran %d of %d jobs, on %d machines in all", best, jobs, len(f.ran))
	}
	t.Logf("the best tenth ran %d of %d jobs, %d machines ran some", best, jobs, len(f.ran))
}
