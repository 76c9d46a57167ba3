package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/fakerun"
	_ "github.com/berthq/berth/runner/shim" // the test binary is its own shim
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/sim"
)

func TestMain(m *testing.M) {
	fakerun.Take()
	takeWorker()
	takeStamper()
	goleak.VerifyTestMain(m)
}

// house is a whole Berth in one test: a real broker, real processes, GPUs that are simulated from them.
type house struct {
	t       *testing.T
	broker  *natstest.Broker // nil on a cluster
	connect func() *nats.Conn
	queue   *queue.Queue // of a submitter
	opts    queue.Options
	locks   string
	sim     sim.Config
}

func newHouse(t *testing.T, gpus string, change ...func(*house)) *house {
	t.Helper()
	t.Parallel()
	b := natstest.New(t)
	return newHouseOn(t, gpus, &house{t: t, broker: b, connect: func() *nats.Conn { return b.Connect() }}, change...)
}

// newHouseOn is newHouse on brokers that are there.
func newHouseOn(t *testing.T, gpus string, h *house, change ...func(*house)) *house {
	t.Helper()
	h.opts, h.locks = queue.Options{ClaimTTL: 30 * time.Second, AckWait: 2 * time.Second}, t.TempDir()
	if gpus != "" {
		cfg, err := sim.Parse(gpus)
		if err != nil {
			t.Fatal(err)
		}
		h.sim = cfg
	}
	h.sim.Seed = t.Name()
	for _, c := range change {
		c(h)
	}
	q, err := queue.OpenClient(t.Context(), h.connect(), h.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	h.queue = q
	return h
}

// crew is a running worker.
type crew struct {
	*Worker
	t      *testing.T
	cancel context.CancelCauseFunc
	kill   context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

// work starts a worker and returns when it is ready to take jobs.
func (h *house) work(machine string, change ...func(*Config)) *crew {
	h.t.Helper()
	q, err := queue.Open(h.t.Context(), h.connect(), h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	ready := make(chan struct{})
	cfg := Config{
		AllowRoot: true, Machine: machine, Version: "test", Store: filepath.Join(h.t.TempDir(), machine), Queue: q,
		Source:  h.openSource,
		Slots:   gpuslots.Options{LockDir: h.locks, CPUs: 8, MemoryMB: 16384, Settle: -1},
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.t.TempDir()}, SampleEvery: 100 * time.Millisecond,
		Grace: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(testWriter{h.t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnReady: func(Ready) { close(ready) },
	}
	for _, c := range change {
		c(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	claim, cancel := context.WithCancelCause(context.Background())
	work, kill := context.WithCancel(context.Background())
	c := &crew{Worker: w, t: h.t, cancel: cancel, kill: kill, done: make(chan error, 1)}
	go func() { c.done <- w.Run(claim, work); q.Close() }()
	h.t.Cleanup(func() { c.kill(); _ = c.end(errors.New("the test is over")) })
	select {
	case <-ready:
	case err := <-c.done:
		c.done <- err
		h.t.Fatalf("worker %s ended at once: %v", machine, err)
	}
	return c
}

// end ends the worker for that reason and waits for it.
func (c *crew) end(cause error) error {
	c.once.Do(func() {
		c.cancel(cause)
		c.err = <-c.done
		c.kill()
	})
	return c.err
}

func (h *house) openSource(_ context.Context, holders func() map[string][]int) (telemetry.Source, error) {
	if len(h.sim.Devices) == 0 {
		return telemetry.NewNone("the test has none"), nil
	}
	return sim.New(h.sim, holders)
}

// submit sends a job whose command is a fakerun script.
func (h *house) submit(req job.Requirements, script ...string) uint64 {
	h.t.Helper()
	return h.send(job.Job{Requirements: req, Spec: h.spec(script...)})
}

func (h *house) spec(script ...string) job.Spec {
	return job.Spec{Name: h.t.Name(), Command: fakerun.Command(script...), Env: jobEnv(), Workdir: h.t.TempDir()}
}

// jobEnv turns the test binary into the job.
func jobEnv() map[string]*string {
	env := map[string]*string{}
	for _, kv := range fakerun.Env() {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = &v
	}
	return env
}

func (h *house) send(j job.Job) uint64 {
	h.t.Helper()
	j.Project, j.User = "lab", "ann"
	r, err := h.queue.Submit(h.t.Context(), j)
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Number
}

// result waits for the job's (or task's) result. A test without one ends at the test binary's timeout and shows where.
func (h *house) result(ref queue.Ref) job.Result {
	h.t.Helper()
	return one[job.Result](h, queue.StreamResults, "berth.results.lab."+ref.String())
}

// one waits for the first message on a subject and reads it.
func one[T any](h *house, stream, subject string) T {
	h.t.Helper()
	js, err := jetstream.New(h.connect())
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 90*time.Second)
	defer cancel()
	var v T
	c, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(85 * time.Second))
	if err != nil {
		h.t.Fatalf("nothing on %s: %v", subject, err)
	}
	if err := json.Unmarshal(m.Data(), &v); err != nil {
		h.t.Fatalf("%s: %v", subject, err)
	}
	return v
}

// count is how many messages a subject filter has.
func (h *house) count(stream, filter string) int {
	h.t.Helper()
	js, err := jetstream.New(h.connect())
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := js.Stream(h.t.Context(), stream)
	if err != nil {
		h.t.Fatal(err)
	}
	info, err := s.Info(h.t.Context(), jetstream.WithSubjectFilter(filter))
	if err != nil {
		h.t.Fatal(err)
	}
	n := 0
	for _, c := range info.State.Subjects {
		n += int(c)
	}
	return n
}

// running waits until the job's record says so.
func (h *house) running(ref queue.Ref) job.Record {
	h.t.Helper()
	js, err := jetstream.New(h.connect())
	if err != nil {
		h.t.Fatal(err)
	}
	kv, err := js.KeyValue(h.t.Context(), queue.BucketRecords)
	if err != nil {
		h.t.Fatal(err)
	}
	w, err := kv.Watch(h.t.Context(), ref.String())
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = w.Stop() }()
	for e := range w.Updates() {
		var rec job.Record
		if e == nil || json.Unmarshal(e.Value(), &rec) != nil {
			continue
		}
		if rec.State == job.Running {
			return rec
		}
	}
	h.t.Fatalf("job %s never ran", ref)
	return job.Record{}
}

// appears waits until a file is there.
func appears(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		if _, err := os.Stat(path); err == nil {
			return
		}
		pause(t.Context(), 5*time.Millisecond)
	}
	t.Fatalf("%s never appeared", path)
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// logOf reads an attempt's whole output, up to its end marker.
func (h *house) logOf(number uint64, attempt int) (out, errs string) {
	h.t.Helper()
	js, err := jetstream.New(h.connect())
	if err != nil {
		h.t.Fatal(err)
	}
	subject := "berth.logs.lab." + strconv.FormatUint(number, 10) + "." + strconv.Itoa(attempt)
	c, err := js.OrderedConsumer(h.t.Context(), queue.StreamLogs, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		h.t.Fatal(err)
	}
	for {
		m, err := c.Next(jetstream.FetchMaxWait(60 * time.Second))
		if err != nil {
			h.t.Fatalf("the log of %s does not end: %v", subject, err)
		}
		switch {
		case m.Headers().Get(queue.HeaderEnd) != "":
			return out, errs
		case m.Headers().Get(queue.HeaderStream) == queue.Stdout:
			out += string(m.Data())
		default:
			errs += string(m.Data())
		}
	}
}

// record reads a job's record as it is now.
func (h *house) record(ref queue.Ref) job.Record {
	h.t.Helper()
	rec := h.recordIfAny(ref)
	if rec.State == "" {
		h.t.Fatalf("job %s has no record", ref)
	}
	return rec
}

// recordIfAny is the zero record where there is none.
func (h *house) recordIfAny(ref queue.Ref) job.Record {
	h.t.Helper()
	js, err := jetstream.New(h.connect())
	if err != nil {
		h.t.Fatal(err)
	}
	kv, err := js.KeyValue(h.t.Context(), queue.BucketRecords)
	if err != nil {
		h.t.Fatal(err)
	}
	e, err := kv.Get(h.t.Context(), ref.String())
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return job.Record{}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	var rec job.Record
	if err := json.Unmarshal(e.Value(), &rec); err != nil {
		h.t.Fatal(err)
	}
	return rec
}
