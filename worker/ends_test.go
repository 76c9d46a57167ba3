package worker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

var errDrain = context.Canceled // any cause but ErrDetach drains

func TestCPUJobWhereNoGPUIs(t *testing.T) {
	h := newHouse(t, "")
	h.work("bare")
	r := h.result(queue.JobRef(h.submit(job.Requirements{}, "env", "exit=0")))
	if r.State != job.Succeeded || r.GPUInfo != nil || r.GPUMonitoring != nil {
		t.Errorf("result %+v", r)
	}
	out, _ := h.logOf(r.Number, 1)
	if !strings.Contains(out, "CUDA_VISIBLE_DEVICES=\n") {
		t.Errorf("a CPU job must see no GPU:\n%s", out)
	}
}

// TestEndings runs one job per row on one house: what the job does, what its result says.
func TestEndings(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	gpu := job.Requirements{GPUs: 1}
	for _, c := range []struct {
		name    string
		req     job.Requirements
		spec    func(*job.Spec)
		script  []string
		state   job.State
		reason  string
		attempt int
	}{
		{"exit code", job.Requirements{}, nil, []string{"exit=3"}, job.Failed, "exit 3", 1},
		{"signal", job.Requirements{}, func(s *job.Spec) { s.Command = job.Command{"sh", "-c", "kill -SEGV $$"} }, nil, job.Failed, "SIGSEGV", 1},
		{"time limit", job.Requirements{}, func(s *job.Spec) { s.TimeLimit = job.Duration(300 * time.Millisecond) }, []string{"hang"}, job.TimedOut, "time limit", 1},
		{"missing workdir", job.Requirements{}, func(s *job.Spec) { s.Workdir = "/no/such/folder" }, []string{"exit=0"}, job.Failed, "/no/such/folder", 1},
		{"missing command", job.Requirements{}, func(s *job.Spec) { s.Command = job.Command{"no-such-program-7"} }, nil, job.Failed, "no-such-program-7", 1},
		{"gpu out of memory", gpu, nil, []string{"err=torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 GiB", "exit=1"}, job.OOMGPU, "memory was full", 1},
		{"retry until it works", job.Requirements{}, func(s *job.Spec) {
			mark := filepath.Join(t.TempDir(), "tried")
			s.Command = job.Command{"sh", "-c", "if [ -e " + mark + " ]; then echo again; else touch " + mark + "; exit 5; fi"}
			s.Retry = &job.Retry{Retries: 1, Backoff: &job.Backoff{Initial: job.Duration(time.Millisecond)}}
		}, nil, job.Succeeded, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := h.spec(c.script...)
			spec.Name = c.name
			if c.spec != nil {
				c.spec(&spec)
			}
			r := h.result(queue.JobRef(h.send(job.Job{Spec: spec, Requirements: c.req})))
			if r.State != c.state || !strings.Contains(r.Reason, c.reason) || r.Attempt != c.attempt || len(r.Attempts) != c.attempt {
				t.Errorf("state %s reason %q attempt %d (%d listed), want %s, %q, %d", r.State, r.Reason, r.Attempt, len(r.Attempts), c.state, c.reason, c.attempt)
			}
		})
	}
}

func TestOutOfMemoryRaisesTheRequirement(t *testing.T) {
	h := newHouse(t, "2x24Gi")
	h.work("alpha")
	spec := h.spec("print=allocating", "err=CUDA out of memory", "exit=1")
	spec.Retry = &job.Retry{Retries: 1, On: []string{"oom_gpu"}, Backoff: &job.Backoff{Initial: job.Duration(time.Millisecond)}}
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1, GPUMemoryMB: 8000}})
	r := h.result(queue.JobRef(n))
	if r.State != job.OOMGPU || len(r.Attempts) != 2 {
		t.Fatalf("state %s after %d attempts", r.State, len(r.Attempts))
	}
	if r.Attempts[0].Devices[0] == r.Attempts[1].Devices[0] {
		t.Errorf("the second attempt went to the same GPU %s", r.Attempts[0].Devices[0])
	}
	rec := h.record(queue.JobRef(n))
	if rec.Requirements.GPUMemoryMB <= 8000 {
		t.Errorf("the retry asked for %d MB, as before", rec.Requirements.GPUMemoryMB)
	}
}

func TestCancelOfARunningJobReachesIt(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	pid := filepath.Join(t.TempDir(), "daemon")
	n := h.submit(job.Requirements{GPUs: 1}, "daemon="+pid, "ignore=TERM", "hang")
	h.running(queue.JobRef(n))
	appears(t, pid)
	if _, err := h.queue.Cancel(t.Context(), queue.JobRef(n), "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	r := h.result(queue.JobRef(n))
	if r.State != job.Cancelled || !strings.Contains(r.Reason, "ann") {
		out, errs := h.logOf(n, 1)
		t.Errorf("state %s, reason %q; it said %q %q", r.State, r.Reason, out, errs)
	}
	if b, err := os.ReadFile(pid); err != nil || alive(strings.TrimSpace(string(b))) {
		t.Errorf("the double-forked child %s lives on (%v)", b, err)
	}
}

func TestCancelOfAQueuedJob(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	first := h.submit(job.Requirements{GPUs: 1}, "hang")
	h.running(queue.JobRef(first))
	second := h.submit(job.Requirements{GPUs: 1}, "exit=0")
	if _, err := h.queue.Cancel(t.Context(), queue.JobRef(second), "ann", ""); err != nil {
		t.Fatal(err)
	}
	if r := h.result(queue.JobRef(second)); r.State != job.Cancelled || r.Attempt != 0 {
		t.Errorf("result %+v", r)
	}
}

func TestArrayOnFewSlots(t *testing.T) {
	h := newHouse(t, "2x24Gi")
	h.work("alpha")
	spec := h.spec("env", "exit=0")
	spec.Array = "0-11"
	tasks, err := job.Expand(spec)
	if err != nil {
		t.Fatal(err)
	}
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}, Tasks: tasks})
	for i := range 12 {
		if r := h.result(queue.TaskRef(n, i)); r.State != job.Succeeded || r.Group != n {
			t.Errorf("task %d: %+v", i, r)
		}
	}
	if got := h.count(queue.StreamResults, "berth.results.lab.*.*"); got != 12 {
		t.Errorf("%d task results, want 12", got)
	}
}

func TestDrainFinishesWhatRuns(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	c := h.work("alpha")
	gate := filepath.Join(t.TempDir(), "gate")
	n := h.submit(job.Requirements{GPUs: 1}, "wait="+gate, "exit=0")
	h.running(queue.JobRef(n))
	later := h.submit(job.Requirements{GPUs: 1}, "exit=0")
	c.cancel(errDrain)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.end(errDrain); err != nil {
		t.Fatal(err)
	}
	if r := h.result(queue.JobRef(n)); r.State != job.Succeeded {
		t.Errorf("the running job ended %s: %s", r.State, r.Reason)
	}
	if got := h.count(queue.StreamResults, "berth.results.lab."+queue.JobRef(later).String()); got != 0 {
		t.Error("a draining worker took another job")
	}
	h.work("beta")
	if r := h.result(queue.JobRef(later)); r.Machine != "beta" {
		t.Errorf("the waiting job ran on %s", r.Machine)
	}
}

func TestStoppedRunsGoBackFreeOfCharge(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	c := h.work("alpha")
	mark := filepath.Join(t.TempDir(), "second")
	spec := h.spec()
	spec.Command = job.Command{"sh", "-c", "if [ -e " + mark + " ]; then exit 0; fi; touch " + mark + "; exec sleep 600"}
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}})
	h.running(queue.JobRef(n))
	appears(t, mark)
	c.kill()
	if err := c.end(errDrain); err != nil {
		t.Fatal(err)
	}
	h.work("beta")
	r := h.result(queue.JobRef(n))
	if r.State != job.Succeeded || r.Machine != "beta" || len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeInterrupted {
		t.Errorf("state %s on %s, attempts %+v", r.State, r.Machine, r.Attempts)
	}
}

func TestTwoWorkersOfOneMachineNeverShareAGPU(t *testing.T) {
	h := newHouse(t, "2x24Gi")
	h.work("one")
	h.work("two")
	dir := t.TempDir()
	// Each job takes a folder named after its GPU and fails when it is there: mkdir is atomic.
	spec := h.spec()
	spec.Command = job.Command{"sh", "-c", `d=` + dir + `/$CUDA_VISIBLE_DEVICES; mkdir "$d" || exit 9; sleep 0.05; rmdir "$d"`}
	spec.Array = "1-24"
	tasks, err := job.Expand(spec)
	if err != nil {
		t.Fatal(err)
	}
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}, Tasks: tasks})
	by := map[string]int{}
	for i := 1; i <= 24; i++ {
		r := h.result(queue.TaskRef(n, i))
		if r.State != job.Succeeded {
			t.Errorf("task %d: %s %s on %s", i, r.State, r.Reason, r.Machine)
		}
		by[r.Machine]++
	}
	t.Logf("tasks by worker: %v", by)
}

func TestAFailingGPULeavesServiceAndComesBack(t *testing.T) {
	control := filepath.Join(t.TempDir(), "now")
	h := newHouse(t, "2x24Gi", func(h *house) { h.sim.Control = control })
	c := h.work("alpha", func(c *Config) { c.RestoreAfter = 300 * time.Millisecond })
	mark := filepath.Join(t.TempDir(), "second")
	spec := h.spec()
	spec.Command = job.Command{"sh", "-c", "if [ -e " + mark + " ]; then exit 0; fi; touch " + mark + "; exec sleep 600"}
	n := h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}})
	rec := h.running(queue.JobRef(n))
	appears(t, mark)
	index := "0"
	if rec.Devices[0] != c.devices[0].UUID {
		index = "1"
	}
	if err := os.WriteFile(control, []byte(index+" xid 79\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := h.result(queue.JobRef(n))
	if r.State != job.Succeeded || len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeGPUFault || !strings.Contains(r.Attempts[0].Evidence, "79") {
		t.Fatalf("state %s, attempts %+v", r.State, r.Attempts)
	}
	if r.Attempts[1].Devices[0] == rec.Devices[0] {
		t.Error("the second attempt ran on the GPU that had failed")
	}
	both := h.submit(job.Requirements{GPUs: 2}, "exit=0") // needs the failed one back
	if r := h.result(queue.JobRef(both)); r.State != job.Succeeded {
		t.Errorf("after the restore: %s %s", r.State, r.Reason)
	}
}

func TestSecondWorkerOnTheSameStoreIsRefused(t *testing.T) {
	h := newHouse(t, "")
	c := h.work("alpha")
	cfg := c.cfg
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context(), t.Context()); err == nil || !strings.Contains(err.Error(), "another worker uses this store") {
		t.Errorf("second worker: %v", err)
	}
}

func TestGarbageOnALaneDoesNotHurtTheWorker(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	n := h.submit(job.Requirements{GPUs: 1}, "exit=0")
	h.result(queue.JobRef(n))
	nc := h.broker.Connect()
	shape := job.ShapeOf(job.Requirements{GPUs: 1})
	for _, garbage := range []string{"\x00\xff\xfe", "{}", `{"v":1,"n":99999,"e":1}`, `[1,2`} {
		if err := nc.Publish("berth.lanes."+string(job.BandNormal)+"."+string(shape.ID)+".lab", []byte(garbage)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Publish("berth.jobs.lab.ann", []byte("\x00 not a job")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	dead := h.result(queue.JobRef(n + 1))
	if dead.State != job.Dead || dead.Reason == "" {
		t.Errorf("garbage on the jobs subject ended %+v", dead)
	}
	again := h.submit(job.Requirements{GPUs: 1}, "exit=0")
	if r := h.result(queue.JobRef(again)); r.State != job.Succeeded {
		t.Errorf("after the garbage: %s %s", r.State, r.Reason)
	}
}

func alive(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}
