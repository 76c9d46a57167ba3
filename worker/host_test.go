package worker

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// CPUs and host memory are the machine's, whoever asks: two jobs that take most of them leave a third waiting, beside
// idle GPUs, though a small one still runs; the end of one of the two lets it start.
func TestHostIsCountedOverJobs(t *testing.T) {
	for name, need := range map[string]job.Requirements{
		"CPUs":        {CPUs: 3},
		"host memory": {MemoryMB: 7000},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "4x24Gi")
			h.work("alpha") // 8 CPUs, 16 GiB
			need.GPUs = 1
			dir := t.TempDir()
			gate := func(i int) string { return filepath.Join(dir, fmt.Sprint("gate", i)) }
			var held []queue.Ref
			for i := range 2 {
				held = append(held, queue.JobRef(h.submit(need, "wait="+gate(i), "exit=0")))
				h.running(held[i])
			}
			third := queue.JobRef(h.submit(need, "exit=0"))
			if small := h.result(queue.JobRef(h.submit(job.Requirements{GPUs: 1}, "exit=0"))); small.State != job.Succeeded {
				t.Errorf("the small one: %s", small.State)
			}
			if v, err := h.queue.Show(t.Context(), third); err != nil || v.State != job.Queued {
				t.Fatalf("the third is %s beside two that have most of the machine: %v", v.State, err)
			}
			touch(t, gate(0))
			r := h.result(third)
			if first := h.result(held[0]); r.State != job.Succeeded || r.StartedAt.Before(*first.EndedAt) {
				t.Errorf("the third %s, began %s, the first ended %s", r.State, r.StartedAt, first.EndedAt)
			}
			if v, err := h.queue.Show(t.Context(), held[1]); err != nil || v.State != job.Running {
				t.Errorf("the second is %s: %v", v.State, err)
			}
			touch(t, gate(1))
			h.result(held[1])
		})
	}
}
