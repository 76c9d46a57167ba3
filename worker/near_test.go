package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// rather is a job that needs a GPU and would rather have the one that another job had, when that has succeeded.
func (h *house) rather(as uint64, script ...string) job.Job {
	spec := h.spec(script...)
	spec.SameGPUAs, spec.Resources.GPUs = queue.JobRef(as).String(), job.CountOf(1)
	spec.DependsOn = []job.Dependency{{Jobs: []string{spec.SameGPUAs}}}
	return job.Job{Requirements: job.Requirements{GPUs: 1}, Spec: spec}
}

// place is the machine and GPU of a result.
func place(r job.Result) string {
	if r.GPUInfo == nil || len(r.GPUInfo.GPUInfo.Details) == 0 {
		return r.Machine + " without a GPU"
	}
	return r.Machine + " " + r.GPUInfo.GPUInfo.Details[0].UUID
}

// A chain of jobs follows its first to the machine and the GPU that nobody would have chosen; where that place is taken
// by another the job waits for it no longer than it may, and starts elsewhere.
func TestSameGPUAsIsAPreference(t *testing.T) {
	h := newHouse(t, "2x24Gi", func(h *house) { h.opts.NearFor = 12 * time.Second })
	h.work("alpha")
	h.sim.Seed = t.Name() + "-beta" // other cards
	h.work("beta")
	beta := h.machine("beta")
	last := beta.GPUs[1]
	bound := job.Requirements{GPUs: 1, Machine: "beta", GPUIDs: []string{last.UUID}}
	number := h.submit(bound, "exit=0")
	want := "beta " + last.UUID
	if got := place(h.result(queue.JobRef(number))); got != want {
		t.Fatalf("the first ran on %s", got)
	}
	for range 3 {
		number = h.send(h.rather(number, "exit=0"))
		r := h.result(queue.JobRef(number))
		if got := place(r); got != want || r.State != job.Succeeded {
			t.Errorf("%d ran on %s, want %s (%s)", number, got, want, r.State)
		}
	}

	other := h.submit(bound, "sleep=1h")
	h.running(queue.JobRef(other))
	next := h.send(h.rather(number, "exit=0"))
	r := h.result(queue.JobRef(next))
	if got := place(r); got == want || r.State != job.Succeeded {
		t.Errorf("%d ran on %s (%s), and that is taken", next, got, r.State)
	}
	if rec := h.record(queue.JobRef(next)); rec.Epoch != 2 || rec.Near.Waits() || rec.Near.Devices[0] != last.UUID {
		t.Errorf("it did not wait for its place: epoch %d, %+v", rec.Epoch, rec.Near)
	}
	if _, err := h.queue.Cancel(t.Context(), queue.JobRef(other), "ann", ""); err != nil {
		t.Fatal(err)
	}
}

// machine waits until a machine has announced itself with its GPUs.
func (h *house) machine(name string) queue.Machine {
	h.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); pause(h.t.Context(), 20*time.Millisecond) {
		all, err := h.queue.Machines(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if i := slices.IndexFunc(all, func(m queue.Machine) bool { return m.Name == name }); i >= 0 && len(all[i].GPUs) > 0 {
			return all[i]
		}
	}
	h.t.Fatalf("machine %s never came", name)
	return queue.Machine{}
}
