package worker

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// TestWideJobsGetTheirTurn keeps every GPU busy with a standing stream of small jobs and asks for whole machines: the
// reservation gets them through, and small jobs that end in time fill the gap.
func TestWideJobsGetTheirTurn(t *testing.T) {
	small, wide, smallFor := 40, 1, "0.5"
	if os.Getenv("BERTH_LONG") != "" {
		small, wide, smallFor = 400, 3, "2"
	}
	h := newHouse(t, "8x24Gi")
	h.work("alpha", func(c *Config) { c.ReserveAfter = 400 * time.Millisecond; c.Slots.CPUs = 0 })
	stream := h.spec()
	stream.Command = job.Command{"sleep", smallFor}
	stream.TimeLimit = job.Duration(4 * time.Second)
	array, err := job.ParseArray("1-" + strconv.Itoa(small))
	if err != nil {
		t.Fatal(err)
	}
	first := h.send(job.Job{Spec: stream, Requirements: job.Requirements{GPUs: 1}, Tasks: &job.Tasks{Indexes: array.String(), Count: small}})
	h.running(queue.TaskRef(first, 1))
	var numbers []uint64
	for range wide {
		spec := h.spec()
		spec.Command = job.Command{"sleep", smallFor}
		numbers = append(numbers, h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 8}}))
	}
	var started []time.Time
	for _, n := range numbers {
		r := h.result(queue.JobRef(n))
		if r.State != job.Succeeded || r.GPUInfo.Count != 8 {
			t.Fatalf("wide job %d: %s %s", n, r.State, r.Reason)
		}
		started = append(started, *r.StartedAt)
	}
	var busy float64 // GPU seconds
	var begin, end time.Time
	after := 0
	for i := 1; i <= small; i++ {
		r := h.result(queue.TaskRef(first, i))
		if r.State != job.Succeeded {
			t.Fatalf("small job %d: %s %s", i, r.State, r.Reason)
		}
		busy += r.RunSeconds
		if begin.IsZero() || r.StartedAt.Before(begin) {
			begin = *r.StartedAt
		}
		if r.EndedAt.After(end) {
			end = *r.EndedAt
		}
		if r.StartedAt.After(started[0]) {
			after++
		}
	}
	if after == 0 {
		t.Error("the wide job started only after the whole stream of small ones: it had no turn")
	}
	for _, n := range numbers {
		busy += 8 * h.result(queue.JobRef(n)).RunSeconds
	}
	used := busy / (8 * end.Sub(begin).Seconds())
	t.Logf("%d of %d small jobs started after the first wide one; GPUs busy %.0f %% of the time", after, small, 100*used)
	if os.Getenv("BERTH_LONG") != "" && used < 0.9 {
		t.Errorf("GPUs were busy %.0f %% of the time, want 90 %%", 100*used)
	}
}
