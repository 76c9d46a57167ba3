package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// A package manager puts a newer binary in the place of the old one and restarts the service: what runs goes on under
// its old shim, the new worker reports it, and new runs get shims of the new binary.
func TestNewerBinaryTakesOver(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	h.worker = filepath.Join(h.dir, "installed-worker")
	copyFile(t, program, h.worker)
	old := h.work("titan", f)
	running := h.submit(1)
	a := h.started()
	before := h.shim("titan", running, 1)

	newer := filepath.Join(h.dir, "next")
	build := exec.Command("go", "build", "-ldflags", "-X github.com/berthq/berth/internal/version.Version=v9.9.9", "-o", newer, "github.com/berthq/berth/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the newer worker: %v\n%s", err, out)
	}
	if err := os.Rename(newer, h.worker); err != nil { // over the one that runs
		t.Fatal(err)
	}
	old.detach()
	h.work("titan", f).says("run_adopted")
	h.sees("titan", "its new version and the run of before", func(m queue.Machine) bool {
		return m.Version == "v9.9.9" && len(m.Running) == 1 && m.Running[0] == running.String()
	})
	if h.shim("titan", running, 1) != before {
		t.Error("the run has another shim than before")
	}
	fresh := h.submit(1)
	b := h.started()
	if exe := exeOf(t, h.shim("titan", fresh, 1)); exe != h.worker {
		t.Errorf("the new run's shim is %s, want %s", exe, h.worker)
	}
	if exe := exeOf(t, before); exe != h.worker+" (deleted)" {
		t.Errorf("the old run's shim is %s: it should be the replaced binary still", exe)
	}
	if a.gpus == b.gpus {
		t.Errorf("both runs have GPU %s", a.gpus)
	}
	h.end(a, 0)
	h.end(b, 3)
	if r := h.result(running); r.State != job.Succeeded || r.Attempt != 1 || len(r.Attempts) != 1 {
		t.Errorf("the run of before: %s, attempts %+v", r.State, r.Attempts)
	}
	if r := h.result(fresh); r.Exit == nil || r.Exit.Code != 3 {
		t.Errorf("the run of after: %+v", r)
	}
}

// While no worker is there a run goes on, however it ends; when the worker comes back in time nothing is repeated.
func TestWorkerIsAwayForAWhile(t *testing.T) {
	away := 4 * time.Second // twice the broker's patience with an unacknowledged message
	if os.Getenv("BERTH_LONG") != "" {
		away = time.Minute
	}
	h, f := newHouse(t), newFake(t, 2)
	d := h.work("titan", f, "--claim-ttl", "3m")
	goesOn, ends := h.submit(1), h.submit(1)
	a, b := h.started(), h.started()
	if a.ref != goesOn.String() {
		a, b = b, a
	}
	d.kill()
	h.end(b, 0) // nobody is there to see it
	select {
	case <-time.After(away): // the time without a worker is what is tested
	case <-t.Context().Done():
	}
	h.work("titan", f, "--claim-ttl", "3m")
	if r := h.result(ends); r.State != job.Succeeded || r.Attempt != 1 || len(r.Attempts) != 1 {
		t.Errorf("the one that ended meanwhile: %s, attempts %+v", r.State, r.Attempts)
	}
	h.end(a, 0)
	if r := h.result(goesOn); r.State != job.Succeeded || r.Attempt != 1 || len(r.Attempts) != 1 {
		t.Errorf("the one that went on: %s, attempts %+v", r.State, r.Attempts)
	}
	if n := len(h.starts); n > 0 {
		t.Errorf("%d more starts", n)
	}
}

// A shim that is killed cannot say how its run ended, and nobody guesses: the run is ended and repeated, and the books
// say why.
func TestShimKilled(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	if err := syscall.Kill(h.shim("titan", ref, 1), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.gone(a.pid)
	b := h.started()
	h.end(b, 0)
	r := h.result(ref)
	if r.State != job.Succeeded || len(r.Attempts) != 2 || b.attempt != 2 {
		t.Fatalf("%s, attempts %+v", r.State, r.Attempts)
	}
	if first := r.Attempts[0]; first.Outcome != job.OutcomeInterrupted || first.Exit != nil || !hasAll(first.Reason, []string{"shim_lost"}) {
		t.Errorf("the first attempt: %+v", first)
	}
}

var bootID = regexp.MustCompile(`"boot_id":\s*"[^"]*"`)

// A machine that was restarted has nothing left of its runs: their jobs are queued again at once, and the GPUs are free.
func TestMachineRebooted(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	shim := h.shim("titan", ref, 1)
	d.kill()
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil { // the power fails: nobody gets to write anything
		t.Fatal(err)
	}
	h.gone(shim)
	_ = syscall.Kill(-a.pid, syscall.SIGKILL)
	h.gone(a.pid)
	for _, name := range []string{"run.json", "state.json"} {
		path := filepath.Join(h.dir, "titan", "runs", ref.String()+".1", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bootID.ReplaceAll(text, []byte(`"boot_id":"before"`)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.work("titan", f)
	h.end(h.started(), 0)
	r := h.result(ref)
	if r.State != job.Succeeded || len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeMachineLost || !hasAll(r.Attempts[0].Reason, []string{"restarted"}) {
		t.Errorf("%s, attempts %+v", r.State, r.Attempts)
	}
}

// A worker whose store folder was lost knows nothing of its runs. Their shims hold the GPUs until the old session's
// deadline, at which they end them; only then does the job run again. No GPU is given twice meanwhile.
func TestStoreFolderLost(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	d := h.work("titan", f, "--claim-ttl", "6s")
	ref := h.submit(1)
	a := h.started()
	d.kill()
	if err := os.RemoveAll(filepath.Join(h.dir, "titan")); err != nil {
		t.Fatal(err)
	}
	h.work("titan", f, "--claim-ttl", "6s")
	other := h.submit(1)
	b := h.started()
	if b.ref != other.String() || b.gpus == a.gpus {
		t.Errorf("the next start is job %s on GPU %s, while %s holds %s", b.ref, b.gpus, a.ref, a.gpus)
	}
	again := h.started()
	if again.ref != ref.String() || again.attempt != 2 {
		t.Errorf("started %+v", again)
	}
	if err := syscall.Kill(a.pid, 0); err == nil {
		t.Error("the first attempt was alive when the second began")
	}
	h.end(b, 0)
	h.end(again, 0)
	if r := h.result(ref); r.State != job.Succeeded || len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeMachineLost {
		t.Errorf("%s, attempts %+v", r.State, r.Attempts)
	}
	h.result(other)
}

// kill ends the worker as a crash does.
func (d *daemon) kill() {
	d.t.Helper()
	_ = d.cmd.Process.Kill() // it lives: the test has just spoken with it
	<-d.done
}

// shim is the process that supervises an attempt.
func (h *house) shim(machine string, ref queue.Ref, attempt int) int {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, machine, "runs", fmt.Sprintf("%s.%d", ref, attempt), "state.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	var state struct {
		Shim struct {
			PID int `json:"pid"`
		} `json:"shim"`
	}
	if err := json.Unmarshal(text, &state); err != nil || state.Shim.PID == 0 {
		h.t.Fatalf("%s: %v", text, err)
	}
	return state.Shim.PID
}

func exeOf(t *testing.T, pid int) string {
	t.Helper()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	return exe
}
