package e2e

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry/fakenvml"
)

// shared makes a job one that tolerates others on its GPU; 0 MB: it does not say what it needs.
func shared(mb int64) func(*job.Job) {
	return func(j *job.Job) { j.Requirements.Share, j.Requirements.GPUMemoryMB = job.Shared, mb }
}

// refuses waits until the machine says why it does not take a job now.
func (h *house) refuses(machine string, words ...string) {
	h.t.Helper()
	h.sees(machine, strings.Join(words, " "), func(m queue.Machine) bool { return says(m.Refusals, words) })
}

// never waits until the machine says why it can never take a job.
func (h *house) never(machine string, words ...string) {
	h.t.Helper()
	h.sees(machine, "never: "+strings.Join(words, " "), func(m queue.Machine) bool { return says(m.Never, words) })
}

func says(whys map[string]string, words []string) bool {
	for _, why := range whys {
		if hasAll(why, words) {
			return true
		}
	}
	return false
}

func TestSharedAndExclusiveJobsNeverMeet(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	h.work("titan", f, "--slots", "2")
	refs := []queue.Ref{h.submit(1, shared(4000))}
	a := h.started()
	alone := h.submit(1)
	h.refuses("titan", "is shared by run "+a.ref)
	refs = append(refs, h.submit(1, shared(4000))) // the second slot
	b := h.started()
	if b.ref != refs[1].String() {
		t.Errorf("beside the shared run: %+v", b)
	}
	h.end(a, 0)
	h.result(refs[0])
	if s := h.state(alone); s != job.Queued {
		t.Errorf("the exclusive job is %s beside a shared run", s)
	}
	h.end(b, 0)
	c := h.started()
	if c.ref != alone.String() {
		t.Errorf("on the empty card: %+v", c)
	}
	refs = append(refs, h.submit(1, shared(4000)))
	h.refuses("titan", "is held by run "+alone.String())
	h.end(c, 0)
	h.end(h.started(), 0)
	for _, ref := range append(refs[1:], alone) {
		if r := h.result(ref); r.State != job.Succeeded {
			t.Errorf("job %s: %s", ref, r.State)
		}
	}
}

func TestModelAndComputeCapability(t *testing.T) {
	h, f := newHouse(t), newFake(t, 3)
	for i, card := range [][2]string{{"Tesla T4", "7.5"}, {"NVIDIA A100-SXM4-80GB", "8.0"}, {"NVIDIA H100 80GB HBM3", "9.0"}} {
		f.GPU(i).Set("name", card[0])
		f.GPU(i).Set("cc", card[1])
	}
	h.work("titan", f)
	model := h.submit(1, func(j *job.Job) { j.Requirements.GPUModels = []string{"V100", "H100"} })
	a := h.started()
	capable := h.submit(1, func(j *job.Job) { j.Requirements.MinCapability = "8.0" })
	b := h.started()
	if a.gpus != f.uuids[2] || b.gpus != f.uuids[1] {
		t.Errorf("an H100 or V100: GPU %d, want 2; capability 8.0: GPU %d, want 1", f.index(t, a.gpus), f.index(t, b.gpus))
	}
	h.submit(1, func(j *job.Job) { j.Requirements.GPUModels = []string{"V100"} })
	h.never("titan", "v100", "is a Tesla T4")
	h.submit(1, func(j *job.Job) { j.Requirements.MinCapability = "9.5" })
	h.never("titan", "has compute capability 9.0")
	h.submit(4)
	h.never("titan", "needs 4 GPUs")
	h.end(a, 0)
	h.end(b, 0)
	h.result(model)
	h.result(capable)
}

// The parts of a GPU that is cut up are devices of their own, with names and books of their own.
func TestMIGDevicesAreGivenByTheirOwnNames(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	parts, names := map[string]*fakenvml.GPU{}, map[string]string{}
	for k, key := range []string{"0.0", "0.1"} {
		name := "MIG-" + uuid.NewString()
		parts[name], names[name] = f.GPU(0).MIG(k, 9000), key
		parts[name].Set("uuid", name)
	}
	h.work("titan", f)
	h.sees("titan", "two parts and no whole", func(m queue.Machine) bool { return len(m.GPUs) == 2 })
	refs := map[string]queue.Ref{}
	var running []start
	for range 2 {
		ref := h.submit(1)
		a := h.started()
		if parts[a.gpus] == nil || refs[a.gpus].Number != 0 {
			t.Fatalf("given %q; there are %v", a.gpus, names)
		}
		refs[a.gpus] = ref
		parts[a.gpus].Processes(fakenvml.Process{PID: a.pid, MemoryMB: 3000, SM: -1})
		running = append(running, a)
	}
	h.sees("titan", "memory used on both, nobody foreign", func(m queue.Machine) bool {
		for _, g := range m.GPUs {
			if len(g.Foreign) > 0 || g.MemoryFreeMB == nil || *g.MemoryFreeMB > 6000 {
				return false
			}
		}
		return true
	})
	for _, a := range running {
		parts[a.gpus].Processes()
		h.end(a, 0)
	}
	for name, ref := range refs {
		r := h.result(ref)
		if r.GPUMonitoring == nil || len(r.GPUMonitoring.GPUStats) != 1 || r.GPUMonitoring.GPUStats[names[name]].MemoryUsedMB == nil {
			t.Errorf("on %s measured %+v", names[name], r.GPUMonitoring)
		}
	}
}

func TestPlacementIsASetting(t *testing.T) {
	for rule, want := range map[string]string{"score": "0 0", "pack": "1 1", "bestfit": "1 1", "spread": "0 1"} {
		t.Run(rule, func(t *testing.T) {
			h, f := newHouse(t), newFake(t, 2)
			f.GPU(1).MemoryUsed(900) // a little fuller
			h.work("titan", f, "--slots", "2", "--placement", rule)
			var got []string
			var running []start
			for range 2 {
				h.submit(1, shared(400))
				a := h.started()
				running = append(running, a)
				got = append(got, string(rune('0'+f.index(t, a.gpus))))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("placed on GPU %v, want %s", got, want)
			}
			for _, a := range running {
				h.end(a, 0)
			}
		})
	}
}

func TestTwoWorkersOfOneMachineKnowOfEachOther(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	h.work("one", f)
	h.work("two", f)
	on := func(machine string) func(*job.Job) { return func(j *job.Job) { j.Requirements.Machine = machine } }
	first := h.submit(1, on("one"))
	a := h.started()
	if g := h.gpuIs("two", 0, "elsewhere"); !strings.Contains(g.Why, first.String()) {
		t.Errorf("why %q", g.Why)
	}
	second := h.submit(1, on("two"))
	h.refuses("two", "held by another worker")
	h.end(a, 0)
	b := h.started()
	if b.ref != second.String() {
		t.Errorf("%+v", b)
	}
	h.end(b, 0)
	h.result(first)
	h.result(second)
}

// A job that says nothing of its memory counts for its slot's share of the card while it is warming up, and for what it
// uses after that.
func TestWarmUpKeepsTheShareOfAJobThatHasNotTouchedItsMemory(t *testing.T) {
	for warmup, waits := range map[string]bool{"1h": true, "50ms": false} {
		t.Run(warmup, func(t *testing.T) {
			h, f := newHouse(t), newFake(t, 1)
			h.work("titan", f, "--slots", "2", "--warmup", warmup)
			h.submit(1, shared(0))
			a := h.started()
			large := h.submit(1, shared(13000)) // the card has 24000, half of it is the share
			if waits {
				h.refuses("titan", "has 12000 MB free of what is not promised")
				h.submit(1, shared(11000))
				b := h.started()
				if b.ref == large.String() {
					t.Error("the share of a starting job was given away")
				}
				h.end(b, 0)
			} else {
				h.end(h.started(), 0)
				h.result(large)
			}
			h.end(a, 0)
		})
	}
}
