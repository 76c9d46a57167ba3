package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/sim"
)

// asWorker in the environment makes the test binary a worker process that can be killed.
const asWorker = "BERTH_TEST_AS_WORKER"

// workerOrder is what such a process is told.
type workerOrder struct {
	URL, Machine, Store, Locks, GPUs, Seed string
	ClaimTTL, AckWait                      time.Duration
	SystemAttempts                         int
	LogCap                                 int64
	ClockSteps                             bool // the wall clock jumps by hours, back and forth, all the time
}

// takeWorker becomes a worker, and never returns, when the process was started as one.
func takeWorker() {
	text := os.Getenv(asWorker)
	if text == "" {
		return
	}
	var o workerOrder
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (o workerOrder) run() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() { <-term; cancel(ErrDetach) }()
	nc, err := nats.Connect(o.URL, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer nc.Close()
	q, err := queue.Open(ctx, nc, queue.Options{ClaimTTL: o.ClaimTTL, AckWait: o.AckWait, SystemAttempts: o.SystemAttempts, Now: o.now})
	if err != nil {
		return err
	}
	defer q.Close()
	w, err := New(Config{
		Machine: o.Machine, Store: o.Store, Queue: q, Version: "test", AllowRoot: true,
		Source: func(_ context.Context, holders func() map[string][]int) (telemetry.Source, error) {
			cfg, err := sim.Parse(o.GPUs)
			cfg.Seed = o.Seed
			if err != nil {
				return nil, err
			}
			return sim.New(cfg, holders)
		},
		Slots:   gpuslots.Options{LockDir: o.Locks, CPUs: 4, Settle: -1},
		Environ: []string{"PATH=" + os.Getenv("PATH")}, SampleEvery: 100 * time.Millisecond, Grace: 2 * time.Second, LogCap: o.LogCap,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Now: o.now,
		OnReady: func(Ready) { fmt.Println("ready") },
	})
	if err != nil {
		return err
	}
	return w.Run(ctx, context.Background())
}

// now is the clock on the wall, which somebody may be setting.
func (o workerOrder) now() time.Time {
	now := time.Now()
	if !o.ClockSteps {
		return now
	}
	return now.Round(0).Add(time.Duration(rand.IntN(13)-6) * time.Hour)
}

// process starts a worker of its own process and returns when it is ready.
func (h *house) process(machine, store string) *exec.Cmd {
	h.t.Helper()
	return h.spawn(workerOrder{URL: h.broker.URL(), Machine: machine, Store: store})
}

// spawn starts a worker process by an order, which it completes, and returns when it is ready.
func (h *house) spawn(o workerOrder) *exec.Cmd {
	h.t.Helper()
	o.Locks, o.GPUs, o.Seed = h.locks, "2x24Gi", o.Machine
	o.ClaimTTL, o.AckWait, o.SystemAttempts = h.opts.ClaimTTL, h.opts.AckWait, h.opts.SystemAttempts
	order, err := json.Marshal(o)
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asWorker+"="+string(order))
	cmd.Stderr = testWriter{h.t}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	word := make([]byte, 6)
	if n, err := out.Read(word); err != nil || string(word[:n]) != "ready\n" {
		h.t.Fatalf("worker process said %q: %v", word[:n], err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // how it ended is the test's own doing
}

// counting prints 1, 2, 3 … until the gate opens, then says how far it came.
func counting(gate string) job.Command {
	return job.Command{"sh", "-c", `i=0; while [ ! -e ` + gate + ` ]; do i=$((i+1)); echo $i; sleep 0.01; done; echo $i >&2`}
}

// everyLineOnce checks that the output is 1..n where n is what the job counted.
func everyLineOnce(t *testing.T, out, errs string) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(errs))
	if err != nil || n == 0 {
		t.Fatalf("the job counted %q", errs)
	}
	lines := strings.Fields(out)
	if len(lines) != n {
		t.Errorf("%d lines in the log, the job wrote %d", len(lines), n)
	}
	for i, l := range lines {
		if l != strconv.Itoa(i+1) {
			t.Fatalf("line %d is %q: lost or doubled", i+1, l)
		}
	}
}

func TestRunSurvivesItsWorker(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "detached": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "")
			store, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
			first := h.process("alpha", store)
			spec := h.spec()
			spec.Command = counting(gate)
			n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}})
			before := h.running(queue.JobRef(n))
			h.shipped(n)
			kill(t, first, sig)
			h.process("alpha", store)
			after := h.adopted(queue.JobRef(n), before.Session)
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := h.result(queue.JobRef(n))
			if r.State != job.Succeeded || r.Attempt != 1 || len(r.Attempts) != 1 {
				t.Errorf("state %s (%s) after attempts %+v", r.State, r.Reason, r.Attempts)
			}
			if after.Devices[0] != before.Devices[0] || r.GPUInfo == nil {
				t.Errorf("GPU before %v, after %v, in the result %+v", before.Devices, after.Devices, r.GPUInfo)
			}
			out, errs := h.logOf(n, 1)
			everyLineOnce(t, out, errs)
			if runs := h.count(queue.StreamRuns, "berth.runs.lab.>"); runs != 1 {
				t.Errorf("%d attempt messages", runs)
			}
		})
	}
}

func TestDeadMachinesJobRunsElsewhere(t *testing.T) {
	h := newHouse(t, "", func(h *house) { h.opts = queue.Options{ClaimTTL: 4 * time.Second, AckWait: time.Second} })
	first := h.process("alpha", t.TempDir())
	mark := filepath.Join(t.TempDir(), "pid")
	spec := h.spec()
	spec.Command = job.Command{"sh", "-c", "if [ -e " + mark + " ]; then exit 0; fi; echo $$ > " + mark + "; exec sleep 600"}
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}})
	h.running(queue.JobRef(n))
	appears(t, mark)
	kill(t, first, syscall.SIGKILL) // and nobody restarts it; its shim ends the run by itself before anybody else may start it
	h.process("beta", t.TempDir())
	r := h.result(queue.JobRef(n))
	if r.State != job.Succeeded || r.Machine != "beta" || len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeMachineLost {
		t.Errorf("state %s on %s, attempts %+v", r.State, r.Machine, r.Attempts)
	}
	if b, err := os.ReadFile(mark); err != nil || alive(strings.TrimSpace(string(b))) {
		t.Errorf("the first run (pid %s) was alive when the second began (%v)", b, err)
	}
}

func TestBrokerRestartCostsNoRunningJob(t *testing.T) {
	away := 4 * time.Second // twice AckWait
	if os.Getenv("BERTH_LONG") != "" {
		away = time.Minute
	}
	h := newHouse(t, "1x24Gi", func(h *house) { h.opts = queue.Options{ClaimTTL: 3 * time.Minute, AckWait: 2 * time.Second} })
	h.work("alpha")
	gate := filepath.Join(t.TempDir(), "gate")
	spec := h.spec()
	spec.Command = counting(gate)
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}})
	h.running(queue.JobRef(n))
	h.broker.Stop()
	pause(t.Context(), away) // the time without a broker is what is tested
	h.broker.Start()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := h.result(queue.JobRef(n))
	if r.State != job.Succeeded || r.Attempt != 1 || len(r.Attempts) != 1 {
		t.Errorf("state %s, attempts %+v", r.State, r.Attempts)
	}
	out, errs := h.logOf(n, 1)
	everyLineOnce(t, out, errs)
}

func TestRunThatEndedWithoutItsWorker(t *testing.T) {
	h := newHouse(t, "")
	store, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	first := h.process("alpha", store)
	spec := h.spec()
	spec.Command = counting(gate)
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}})
	h.running(queue.JobRef(n))
	h.shipped(n)
	kill(t, first, syscall.SIGKILL)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	exits, err := filepath.Glob(filepath.Join(store, "runs", "*"))
	if err != nil || len(exits) != 1 {
		t.Fatalf("runs %v, %v", exits, err)
	}
	appears(t, filepath.Join(exits[0], "exit.json"))
	h.process("alpha", store)
	r := h.result(queue.JobRef(n))
	if r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("state %s, attempts %+v", r.State, r.Attempts)
	}
	out, errs := h.logOf(n, 1)
	everyLineOnce(t, out, errs)
}

// shipped waits for the first piece of the job's output in the broker.
func (h *house) shipped(number uint64) {
	h.t.Helper()
	for h.count(queue.StreamLogs, fmt.Sprintf("berth.logs.lab.%d.>", number)) == 0 {
		if pause(h.t.Context(), 20*time.Millisecond); h.t.Context().Err() != nil {
			h.t.Fatal(errors.New("nothing of the log was shipped"))
		}
	}
}

// adopted waits until the job runs under another session.
func (h *house) adopted(ref queue.Ref, before string) job.Record {
	h.t.Helper()
	for {
		if rec := h.record(ref); rec.Session != before {
			return rec
		}
		if pause(h.t.Context(), 20*time.Millisecond); h.t.Context().Err() != nil {
			h.t.Fatal("nobody adopted the run")
		}
	}
}
