package web

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

const many = 100_000

// fill tells the hub of many jobs that ran, as the broker would.
func (h *house) fill(n int) {
	start := time.Now().Add(-time.Hour)
	ended := start.Add(time.Minute)
	for i := range n {
		ref := queue.JobRef(uint64(i + 1))
		name := fmt.Sprintf("train-%d", i)
		h.s.hub.seeJob(queue.JobView{Ref: ref, Number: ref.Number, Name: name, Project: "vision", User: fmt.Sprintf("user%d", i%40), State: job.Queued, QueuedAt: start,
			Job: &job.Job{Project: "vision", Spec: job.Spec{Name: name, Command: job.Command{"true"}}}})
		h.s.hub.seeRecord(ref, &job.Record{Number: ref.Number, State: job.Succeeded, QueuedAt: start, StartedAt: &start, EndedAt: &ended, Machine: "m1",
			Attempts: []job.Attempt{{Attempt: 1, Devices: []string{fmt.Sprintf("GPU-%d", i%8)}, StartedAt: start, EndedAt: &ended}}})
	}
}

func heapMiB() uint64 {
	runtime.GC()
	runtime.GC() // what the first one found in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}

// The whole process, broker and test with it, stays under 200 MiB of heap with a hundred thousand jobs in the index.
// It does not run beside others: they would be counted.
func TestHundredThousandJobs(t *testing.T) {
	h := newHouse(t)
	before := heapMiB()
	h.fill(many)
	used := heapMiB()
	t.Logf("%d MiB with %d jobs, %d MiB before", used, many, before)
	if used >= 200 {
		t.Errorf("%d MiB, want under 200", used)
	}
	h.list("limit=50&offset=99950", func(total int, jobs []row) bool { return total == many && len(jobs) == 50 && jobs[49].Number == 1 })
	h.list("q=train-99999", func(total int, _ []row) bool { return total == 1 })
	h.list("user=user7&sort=name&order=asc&limit=1", func(total int, jobs []row) bool { return total == many/40 && jobs[0].Name == "train-10007" })
}

// What a browser waits for on the Jobs page with a hundred thousand jobs, and on the overview, against a page that is a
// file: the ratio is the cost of the jobs.
func BenchmarkHundredThousandJobs(b *testing.B) {
	h := newHouse(b)
	h.fill(many)
	for name, path := range map[string]string{
		"file": "/assets/dom.js", "first page": "/api/v1/jobs?limit=50", "last page": "/api/v1/jobs?limit=50&offset=99950", "search": "/api/v1/jobs?limit=50&q=train-77", "sorted by name": "/api/v1/jobs?limit=50&sort=name",
		"usage of a day": "/api/v1/usage?minutes=1440", "GPUs over time": "/api/v1/timeline?minutes=120",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if code, text := h.ask(http.MethodGet, path, ""); code != http.StatusOK {
					b.Fatalf("%s: %d %s", path, code, text)
				}
			}
		})
	}
}
