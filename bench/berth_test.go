package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/sim"
	"github.com/berthq/berth/worker"
)

// berth is the path with Berth: a submitter and one worker with eight slots, of either kind.
type berth struct {
	tb      testing.TB
	js      jetstream.JetStream
	queue   *queue.Queue // the submitter's
	results *nats.Subscription
	spec    job.Spec
	req     job.Requirements
}

// connector is a broker: in this process or in its own.
type connector interface {
	Connect(options ...nats.Option) *nats.Conn
}

// kinds of jobs: one that only needs a CPU, and one that gets a GPU to itself, with all that this means (a fresh
// reading before the grant, telemetry, no process left on the GPU after).
var kinds = []struct {
	name string
	req  job.Requirements
}{{"cpu", job.Requirements{}}, {"gpu", job.Requirements{GPUs: 1}}}

const gpus = "8x24Gi"

func newBerth(tb testing.TB, b connector, slots int, req job.Requirements) *berth {
	tb.Helper()
	return newBerthOn(tb, b, req, station{machine: "bench", gpus: gpus, slots: slots})
}

// station is one machine.
type station struct {
	machine, gpus string
	slots         int // CPUs
}

// newBerthOn is newBerth with some machines.
func newBerthOn(tb testing.TB, b connector, req job.Requirements, machines ...station) *berth {
	tb.Helper()
	nc := b.Connect()
	h := &berth{tb: tb, spec: job.Spec{Name: "trivial", Command: trivial, Workdir: "/"}, req: req}
	var err error
	if h.js, err = jetstream.New(nc); err != nil {
		tb.Fatal(err)
	}
	for _, m := range machines {
		h.work(b, m)
	}
	if h.queue, err = queue.OpenClient(tb.Context(), nc, queue.Options{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(h.queue.Close)
	if h.results, err = nc.SubscribeSync("berth.results.>"); err != nil {
		tb.Fatal(err)
	}
	return h
}

// work starts a worker, and ends it with the benchmark.
func (h *berth) work(b connector, m station) {
	h.tb.Helper()
	q, err := queue.Open(h.tb.Context(), b.Connect(), queue.Options{})
	if err != nil {
		h.tb.Fatal(err)
	}
	cards, err := sim.Parse(m.gpus)
	if err != nil {
		h.tb.Fatal(err)
	}
	cards.Seed = m.machine
	ready := make(chan struct{})
	w, err := worker.New(worker.Config{
		Machine: m.machine, Version: "bench", Store: filepath.Join(h.tb.TempDir(), "store"), Queue: q,
		Source: func(_ context.Context, holders func() map[string][]int) (telemetry.Source, error) {
			return sim.New(cards, holders)
		},
		Slots:   gpuslots.Options{LockDir: h.tb.TempDir(), CPUs: m.slots, MemoryMB: 1 << 20},
		Environ: []string{"PATH=" + os.Getenv("PATH")}, AllowRoot: true,
		OnReady: func(worker.Ready) { close(ready) },
	})
	if err != nil {
		h.tb.Fatal(err)
	}
	claims, stop := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(claims, context.Background()) }()
	h.tb.Cleanup(func() {
		stop(errors.New("the benchmark is over"))
		if err := <-ended; err != nil {
			h.tb.Error(err)
		}
		q.Close()
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		h.tb.Fatalf("the worker ended at once: %v", err)
	}
}

func (h *berth) job() job.Job {
	return job.Job{Project: "bench", User: "bench", Spec: h.spec, Requirements: h.req}
}

// dispatch is the time from before the submit to the exec, on an idle system.
func (h *berth) dispatch(ctx context.Context) time.Duration { return h.send(ctx, h.job()) }

// send is dispatch of this job.
func (h *berth) send(ctx context.Context, j job.Job) time.Duration {
	h.tb.Helper()
	began := time.Now()
	if _, err := h.queue.Submit(ctx, j); err != nil {
		h.tb.Fatal(err)
	}
	r := h.result(ctx)
	if r.State != job.Succeeded || r.StartedAt == nil {
		h.tb.Fatalf("job %d: %s: %s", r.Number, r.State, r.Reason)
	}
	return r.StartedAt.Sub(began)
}

func (h *berth) result(ctx context.Context) job.Result {
	h.tb.Helper()
	var r job.Result
	msg, err := h.results.NextMsgWithContext(ctx)
	if err != nil {
		h.tb.Fatal(err)
	}
	if err := json.Unmarshal(msg.Data, &r); err != nil {
		h.tb.Fatal(err)
	}
	return r
}

// rest is how long the system is left alone before a dispatch is timed: what the job before left to do (its folder, its
// log, a reading of the GPUs) must not be on the other path's bill.
const rest = 30 * time.Millisecond

// rests returns when nothing is under way any more, a pull waits on every lane (at first there is none), and a moment has
// passed.
func (h *berth) rests(ctx context.Context) { h.stands(ctx, 0, 1) }

// stands is rests for so many lanes, or more, at each of which so many machines wait: but for a few that are just asking
// again.
func (h *berth) stands(ctx context.Context, least, machines int) {
	h.tb.Helper()
	eventually(h.tb, func() bool {
		s, err := h.js.Stream(ctx, queue.StreamLanes)
		if err != nil {
			return false
		}
		quiet, seen := true, 0
		lanes := s.ListConsumers(ctx)
		for c := range lanes.Info() { // to its end: who leaves earlier leaves a goroutine behind
			quiet = quiet && c.NumAckPending == 0 && c.NumPending == 0 && c.NumWaiting > 0
			if strings.HasPrefix(c.Name, "l") {
				seen++
				quiet = quiet && c.NumWaiting >= (9*machines+9)/10
			}
		}
		return quiet && seen >= least && lanes.Err() == nil
	})
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
}

// through does n trivial jobs, from the first submit to the last result.
func (h *berth) through(ctx context.Context, n int) time.Duration {
	h.tb.Helper()
	submitted := make(chan error, 1)
	began := time.Now()
	go func() {
		submitted <- inParallel(submitters, n, func(int) error {
			_, err := h.queue.Submit(ctx, h.job())
			return err
		})
	}()
	for range n {
		if r := h.result(ctx); r.State != job.Succeeded {
			h.tb.Fatalf("job %d: %s: %s", r.Number, r.State, r.Reason)
		}
	}
	took := time.Since(began)
	if err := <-submitted; err != nil {
		h.tb.Fatal(err)
	}
	return took
}
