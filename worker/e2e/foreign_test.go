package e2e

import (
	"fmt"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry/fakenvml"
)

func TestRunsArePinnedByUUIDAndMeasured(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	h.work("titan", f)
	refs := []queue.Ref{h.submit(1), h.submit(1)}
	a, b := h.started(), h.started()
	if a.gpus == b.gpus {
		t.Errorf("both runs were given %s", a.gpus)
	}
	for _, s := range []start{a, b} {
		f.GPU(f.index(t, s.gpus)).Processes(fakenvml.Process{PID: s.pid, MemoryMB: 4096, SM: 70})
		f.GPU(f.index(t, s.gpus)).Util(70)
	}
	changed := time.Now()
	h.sees("titan", "both runs busy on their cards for a while, nobody foreign", func(m queue.Machine) bool {
		if m.At.Before(changed.Add(2500 * time.Millisecond)) {
			return false // each run's own samples are a second apart
		}
		for _, g := range m.GPUs {
			if g.UtilizationPercent == nil || *g.UtilizationPercent != 70 || len(g.Foreign) > 0 || len(g.Jobs) != 1 {
				return false
			}
		}
		return true
	})
	h.end(a, 0)
	h.end(b, 0)
	for _, ref := range refs {
		r := h.result(ref)
		if r.State != job.Succeeded || r.GPUMonitoring == nil {
			t.Fatalf("%+v", r)
		}
		for _, g := range r.GPUMonitoring.GPUStats {
			if g.MemoryUsedMB == nil || g.MemoryUsedMB.Max != 4096 || g.Utilization.Max != 70 {
				t.Errorf("job %s measured %+v", ref, g)
			}
		}
	}
}

func TestForeignProcessClosesACardUntilItHasLeft(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	other := child(t)
	f.GPU(0).Processes(fakenvml.Process{PID: other.Pid, MemoryMB: 20000, SM: 80})
	h.work("titan", f)
	g := h.gpuIs("titan", 0, "foreign")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if who := strings.Join(g.Foreign, " "); !hasAll(who, []string{"sleep", fmt.Sprintf("pid %d", other.Pid), me.Username, "20000 MB"}) {
		t.Errorf("named as %q", who)
	}
	first := h.submit(1)
	a := h.started()
	if a.gpus != f.uuids[1] {
		t.Errorf("the first job was given the card of somebody else")
	}
	second := h.submit(1)
	h.sees("titan", "why the second one waits", func(m queue.Machine) bool {
		for _, why := range m.Refusals {
			if hasAll(why, []string{"sleep", fmt.Sprint(other.Pid)}) {
				return true
			}
		}
		return false
	})
	_ = other.Kill()
	f.GPU(0).Processes()
	b := h.started()
	if b.ref != second.String() || b.gpus != f.uuids[0] {
		t.Errorf("after the foreign process: %+v", b)
	}
	h.end(a, 0)
	h.end(b, 0)
	h.result(first)
	h.result(second)
}

func TestLightForeignLoadIsAllowedUpToMaxUtil(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	f.GPU(0).Processes(fakenvml.Process{PID: child(t).Pid, MemoryMB: 300, SM: 30})
	f.GPU(1).Processes(fakenvml.Process{PID: child(t).Pid, MemoryMB: 300, SM: 60})
	h.work("titan", f, "--max-util", "40")
	h.gpuIs("titan", 1, "foreign")
	ref := h.submit(1)
	a := h.started()
	if a.gpus != f.uuids[0] {
		t.Error("the card under 60 % of foreign load was given, with --max-util 40")
	}
	h.end(a, 0)
	h.result(ref)
}

func TestForeignBlockAndTheIgnoreList(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	f.GPU(0).Processes(fakenvml.Process{PID: child(t).Pid, MemoryMB: 10, SM: 0})
	h.work("strict", f, "--foreign", "block")
	h.gpuIs("strict", 0, "foreign")
	waits := h.submit(1, func(j *job.Job) { j.Requirements.Machine = "strict" })

	g := newFake(t, 1)
	g.GPU(0).Processes(fakenvml.Process{PID: child(t).Pid, MemoryMB: 10, SM: 0})
	h.work("lenient", g, "--foreign", "block", "--foreign-ignore", "sleep")
	runs := h.submit(1, func(j *job.Job) { j.Requirements.Machine = "lenient" })
	a := h.started()
	h.end(a, 0)
	if r := h.result(runs); r.Machine != "lenient" {
		t.Errorf("ran on %s", r.Machine)
	}
	if s := h.state(waits); s != job.Queued {
		t.Errorf("beside a foreign process, under block: %s", s)
	}
}

// The tree of a run is known by its control group: a grandchild in a session of its own belongs to it.
func TestProcessBelongsToARunByItsGroupNotItsParent(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	h.work("titan", f, "--foreign", "block")
	ref := h.submit(1, h.does(h.script(`setsid sh -c 'echo $$ > pid; exec sleep 3600' </dev/null >/dev/null 2>&1 &
until [ -s pid ]; do :; done; PID=$(cat pid)`)))
	a := h.started()
	f.GPU(0).Processes(fakenvml.Process{PID: a.pid, MemoryMB: 4000, SM: 50})
	f.GPU(0).Util(50)
	m := h.sees("titan", "the load of the run", func(m queue.Machine) bool {
		return m.GPUs[0].UtilizationPercent != nil && *m.GPUs[0].UtilizationPercent == 50
	})
	if len(m.GPUs[0].Foreign) > 0 {
		t.Errorf("a run's own process is called foreign: %q", m.GPUs[0].Foreign)
	}
	f.GPU(0).Processes()
	h.end(a, 0)
	if r := h.result(ref); r.State != job.Succeeded {
		t.Errorf("%+v", r)
	}
}

func TestRunOnAnotherCardIsWarnedOf(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	d := h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	own := f.index(t, a.gpus)
	f.GPU(1 - own).Processes(fakenvml.Process{PID: a.pid, MemoryMB: 4000, SM: 50})
	d.says("run_on_foreign_gpu", f.uuids[1-own])
	h.end(a, 0)
	r := h.result(ref)
	want := []string{fmt.Sprintf("process %d", a.pid), f.uuids[1-own], fmt.Sprintf("it was given GPU %d", own)}
	if len(r.Warnings) != 1 || !hasAll(r.Warnings[0], want) {
		t.Errorf("warnings %q, want one with %q", r.Warnings, want)
	}
}

// The driver still lists a process of the run after the run is over: the card is not given again before it is gone.
func TestLeftoverKeepsTheSlotDirty(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	first := h.submit(1)
	a := h.started()
	f.GPU(0).Processes(fakenvml.Process{PID: a.pid, MemoryMB: 9000, SM: 50})
	h.sees("titan", "the run's memory", func(m queue.Machine) bool {
		return m.GPUs[0].MemoryFreeMB != nil && *m.GPUs[0].MemoryFreeMB < 16000
	})
	h.end(a, 0)
	r := h.result(first)
	if len(r.Warnings) != 1 || !hasAll(r.Warnings[0], []string{fmt.Sprint(a.pid), "still holds memory"}) {
		t.Errorf("warnings %q", r.Warnings)
	}
	second := h.submit(1)
	if g := h.gpuIs("titan", 0, "dirty"); !strings.Contains(g.Why, fmt.Sprint(a.pid)) {
		t.Errorf("why %q", g.Why)
	}
	if s := h.state(second); s != job.Queued {
		t.Errorf("the next job is %s on a dirty card", s)
	}
	f.GPU(0).Processes()
	d.says("gpu_clean", f.uuids[0])
	b := h.started()
	h.end(b, 0)
	h.result(second)
}

// Under the policy ignore nobody's load closes a card; the memory that is not free is given to nobody all the same.
func TestForeignIgnoreLooksAtMemoryAlone(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	other := child(t)
	f.GPU(0).Processes(fakenvml.Process{PID: other.Pid, MemoryMB: 20000, SM: 95})
	f.GPU(0).Util(95)
	h.work("titan", f, "--foreign", "ignore")
	large := h.submit(1, func(j *job.Job) { j.Requirements.GPUMemoryMB = 10000 })
	h.refuses("titan", "has 4000 MB free", fmt.Sprint(other.Pid))
	small := h.submit(1, func(j *job.Job) { j.Requirements.GPUMemoryMB = 3000 })
	a := h.started()
	if a.ref != small.String() {
		t.Errorf("%+v", a)
	}
	h.end(a, 0)
	h.result(small)
	if s := h.state(large); s != job.Queued {
		t.Errorf("the large job is %s", s)
	}
}

// A card that a foreign process has left is not given at once: whoever ran it may start the next.
func TestCardSettlesAfterAForeignProcess(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	other := child(t)
	f.GPU(0).Processes(fakenvml.Process{PID: other.Pid, MemoryMB: 20000, SM: 95})
	d := h.work("titan", f, "--settle", "1h")
	h.gpuIs("titan", 0, "foreign")
	ref := h.submit(1)
	_ = other.Kill()
	f.GPU(0).Processes()
	if g := h.gpuIs("titan", 0, "settling"); !hasAll(g.Why, []string{"left by a foreign process", "settles for 3600 s"}) {
		t.Errorf("why %q", g.Why)
	}
	h.refuses("titan", "left by a foreign process")
	if s := h.state(ref); s != job.Queued {
		t.Errorf("the job is %s", s)
	}
	d.detach()
	h.work("titan", f, "--settle", "0s")
	h.end(h.started(), 0)
	h.result(ref)
}
