package worker

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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

// What a job asks for of its host is what the kernel gives it: more memory ends it, or a child of it, and the counter is
// the evidence whatever code it ends with; its CPUs are its weight. The next job runs.
func TestHostIsEnforced(t *testing.T) {
	h := newHouse(t, "")
	w := h.work("alpha")
	have := w.runner.Isolation()
	if !slices.Contains(have.Controllers, "memory") || !slices.Contains(have.Controllers, "cpu") {
		t.Skipf("DID NOT RUN: %s", have.Text)
	}
	const weight = `while IFS=: read -r _ c p; do cat /sys/fs/cgroup/$c$p/cpu.shares /sys/fs/cgroup$p/cpu.weight 2>/dev/null; done </proc/self/cgroup; `
	spec := h.spec()
	greedy := slices.Clone(spec.Command)
	spec.Command = append(job.Command{"sh", "-c", weight + `"$@"; echo went on; exit 1`, "sh"}, append(greedy, "grow=600")...)
	r := h.result(queue.JobRef(h.send(job.Job{Spec: spec, Requirements: job.Requirements{MemoryMB: 150, CPUs: 2}})))
	if r.State != job.OOMHost || !strings.Contains(r.Evidence, "oom_kill") {
		t.Errorf("%s (%s), evidence %q", r.State, r.Reason, r.Evidence)
	}
	if out, _ := h.logOf(r.Number, 1); !strings.HasPrefix(out, "2048\n") && !strings.HasPrefix(out, "200\n") {
		t.Errorf("its weight: %q, want that of 2 CPUs", out)
	}
	r = h.result(queue.JobRef(h.submit(job.Requirements{MemoryMB: 2000}, "grow=600")))
	if r.State != job.Succeeded || r.Report == nil || r.Report.PeakMemoryMB == nil || *r.Report.PeakMemoryMB < 600 {
		t.Errorf("the next one, with room: %s (%s), %+v", r.State, r.Reason, r.Report)
	}
}
