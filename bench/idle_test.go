package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

// window is how long a process at rest is watched: at the 10 ms that /proc counts in, 1 % of a core is 20 ticks.
const window = 20 * time.Second

// The worker as it is installed: with 8 simulated GPUs and nothing to do, then with a job on each that does nothing.
func BenchmarkIdleWorker(b *testing.B) {
	w := startWorker(b, build(b))
	for b.Loop() {
		idle := w.watch(b, window)
		pss, rss := memory(b, w.pid())
		for pid := range children(b, w.pid()) { // the spare shim
			more, _ := memory(b, pid)
			pss += more
		}
		target(b, idle, "idle-%core", "at most", 1)
		target(b, pss, "pss-MiB", "at most", 60)
		b.ReportMetric(rss, "rss-MiB")

		numbers := w.hold(b, 8)
		shims := w.shims(b, 8)
		b.ReportMetric(w.watch(b, window), "8jobs-%core")
		most := 0.0
		for _, pid := range shims {
			shim, _ := memory(b, pid)
			most = max(most, shim)
		}
		target(b, most, "shim-pss-MiB", "at most", 3)
		w.free(b, numbers)
	}
}

// The same in small, so that the benchmark does not rot.
func TestIdleWorker(t *testing.T) {
	t.Parallel()
	self, err := os.Executable() // without a build: the test binary is a worker too
	if err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, self)
	if used := w.watch(t, 100*time.Millisecond); used < 0 {
		t.Errorf("used %v %% of a core", used)
	}
	numbers := w.hold(t, 2)
	for _, pid := range w.shims(t, 2) {
		if pss, _ := memory(t, pid); pss <= 0 {
			t.Errorf("shim %d: %v MiB", pid, pss)
		}
	}
	w.free(t, numbers)
}

// installed is a worker process of its own, and a submitter.
type installed struct {
	cmd   *exec.Cmd
	queue *queue.Queue
	said  *bytes.Buffer
}

// build makes the command that people install.
func build(tb testing.TB) string {
	tb.Helper()
	bin := filepath.Join(tb.TempDir(), "worker")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", bin, "../cmd/worker")
	cmd.Env = append(os.Environ(), "CGO_CFLAGS=-O1 -g -Wno-deprecated-declarations") // as the Makefile does
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build the worker: %v\n%s", err, out)
	}
	return bin
}

func startWorker(tb testing.TB, bin string, flags ...string) *installed {
	tb.Helper()
	dir := tb.TempDir()
	broker := natstest.New(tb)
	q, err := queue.OpenClient(tb.Context(), broker.Connect(), queue.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(q.Close)
	w := &installed{queue: q, said: &bytes.Buffer{}}
	name := fmt.Sprintf("bench-%d", os.Getpid()) // simulated GPUs are named after it, and locked by name
	w.cmd = exec.Command(bin, append(flags, "--server", broker.URL(), "--store", filepath.Join(dir, "store"), "--name", name, "--gpu-source", "sim:8x24Gi")...)
	w.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, asWorker + "=1", "BERTH_WORKER_ALLOW_ROOT=true"}
	w.cmd.Stdout, w.cmd.Stderr = w.said, w.said
	if err := w.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.stop(tb) })
	eventually(tb, func() bool {
		all, err := q.Machines(tb.Context())
		return err == nil && len(all) == 1 && len(all[0].GPUs) == 8
	})
	return w
}

func (w *installed) stop(tb testing.TB) {
	tb.Helper()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	if err := w.cmd.Wait(); err != nil {
		tb.Errorf("the worker ended with %v\n%s", err, w.said)
	}
}

func (w *installed) pid() int { return w.cmd.Process.Pid }

// watch is the share of a core the worker uses, in percent.
func (w *installed) watch(tb testing.TB, d time.Duration) float64 {
	tb.Helper()
	before, began := cpu(tb, w.pid()), time.Now()
	select {
	case <-time.After(d):
	case <-tb.Context().Done():
	}
	return 100 * (cpu(tb, w.pid()) - before).Seconds() / time.Since(began).Seconds()
}

// hold starts n jobs that do nothing, each on a GPU of its own.
func (w *installed) hold(tb testing.TB, n int) []uint64 {
	tb.Helper()
	return w.holdEach(tb, n, job.Requirements{GPUs: 1})
}

func (w *installed) holdEach(tb testing.TB, n int, req job.Requirements) []uint64 {
	tb.Helper()
	var numbers []uint64
	for range n {
		r, err := w.queue.Submit(tb.Context(), job.Job{
			Project: "bench", User: "bench", Requirements: req,
			Spec: job.Spec{Command: []string{"sleep", "3600"}, Workdir: "/"},
		})
		if err != nil {
			tb.Fatal(err)
		}
		numbers = append(numbers, r.Number)
	}
	return numbers
}

// shims are the worker's, once there are n and each has its job.
func (w *installed) shims(tb testing.TB, n int) []int {
	tb.Helper()
	var found []int
	eventually(tb, func() bool {
		found = found[:0]
		for pid := range children(tb, w.pid()) {
			for _, name := range children(tb, pid) {
				if name == "sleep" {
					found = append(found, pid)
				}
			}
		}
		return len(found) == n
	})
	return found
}

// free ends the jobs.
func (w *installed) free(tb testing.TB, numbers []uint64) {
	tb.Helper()
	for _, number := range numbers {
		if _, err := w.queue.Cancel(tb.Context(), queue.JobRef(number), "bench", "measured"); err != nil {
			tb.Fatal(err)
		}
	}
	eventually(tb, func() bool {
		all, err := w.queue.Machines(tb.Context())
		return err == nil && len(all) == 1 && len(all[0].Running) == 0
	})
}
