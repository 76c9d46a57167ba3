package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// The way of a job's output from its write to the end of the log stream, broker included, and what the worker's own
// process uses for it.
func BenchmarkLogs(b *testing.B) {
	const size = 512 << 20
	w := startWorker(b, build(b), "--log-cap", "2Gi")
	for b.Loop() {
		before, began := cpu(b, w.pid()), time.Now()
		w.print(b, size)
		took, used := time.Since(began).Seconds(), (cpu(b, w.pid()) - before).Seconds()
		target(b, float64(size)/1e6/took, "MB/s", "at least", 50)
		target(b, 100*used/took, "worker-%core", "at most", 100)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	startWorker(t, self).print(t, 1<<20)
}

// print runs a job that writes so many bytes as fast as it can, and waits until its log is complete.
func (w *installed) print(tb testing.TB, size int) {
	tb.Helper()
	r, err := w.queue.Submit(tb.Context(), job.Job{Project: "bench", User: "bench", Spec: job.Spec{Command: writing(size), Workdir: "/"}})
	if err != nil {
		tb.Fatal(err)
	}
	if got := w.logged(tb, r.Number); got != size {
		tb.Fatalf("%d bytes in the log stream, %d were written", got, size)
	}
}

// writing is a command that prints so many bytes in lines.
func writing(size int) []string {
	return []string{"sh", "-c", fmt.Sprintf("yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -c %d", size)}
}

// logged counts the bytes of a job's log, from its start to its end.
func (w *installed) logged(tb testing.TB, number uint64) int {
	tb.Helper()
	total := 0
	for chunk, err := range w.queue.Logs(tb.Context(), queue.JobRef(number), queue.LogOptions{Follow: true}) {
		if err != nil {
			tb.Fatal(err)
		}
		total += len(chunk.Data)
	}
	return total
}
