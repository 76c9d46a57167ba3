package bench

import (
	"os"
	"testing"

	"github.com/berthq/berth/job"
)

// crowd is how many runs one worker has at once.
const crowd = 200

// share is the part of a GPU that each of them has.
var share = job.Requirements{GPUs: 1, GPUMemoryMB: 500, Share: job.Shared}

// A worker as it is installed with 200 runs that do nothing: what it and their shims weigh together.
func BenchmarkCrowd(b *testing.B) {
	w := startWorker(b, build(b), "--slots", "32")
	for b.Loop() {
		numbers := w.holdEach(b, crowd, share)
		total, worker, most := w.weigh(b, crowd)
		target(b, total, "together-pss-MiB", "at most", 600)
		b.ReportMetric(worker, "worker-pss-MiB")
		b.ReportMetric(most, "shim-pss-max-MiB")
		b.ReportMetric(w.watch(b, window), "worker-%core")
		w.free(b, numbers)
	}
}

// The same in small, so that the benchmark does not rot.
func TestCrowd(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, self, "--slots", "2")
	numbers := w.holdEach(t, 3, share)
	if total, worker, most := w.weigh(t, 3); most <= 0 || worker <= 0 || total < worker+most {
		t.Errorf("together %v MiB, worker %v, the heaviest shim %v", total, worker, most)
	}
	w.free(t, numbers)
}

// weigh adds up the worker and the shims of its n runs, once all have their jobs.
func (w *installed) weigh(tb testing.TB, n int) (total, worker, most float64) {
	tb.Helper()
	shims := w.shims(tb, n)
	worker, _ = memory(tb, w.pid())
	total = worker
	for _, pid := range shims {
		shim, _ := memory(tb, pid)
		total, most = total+shim, max(most, shim)
	}
	return total, worker, most
}
