package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/telemetry/fakenvml"
)

// probes are the worker's NVML probes that live now.
func (d *daemon) probes() []int {
	d.t.Helper()
	all, err := proc.All()
	if err != nil {
		d.t.Fatal(err)
	}
	var pids []int
	for _, p := range all {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if p.PPID == d.cmd.Process.Pid && strings.HasPrefix(string(cmdline), "berth-gpu-probe\x00") {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// probe is the one there is.
func (d *daemon) probe() int {
	d.t.Helper()
	pids := d.probes()
	if len(pids) != 1 {
		d.t.Fatalf("%d probes, want one: %v", len(pids), pids)
	}
	return pids[0]
}

func TestKilledProbeIsReplaced(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	before := d.probe()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.says("nvml probe ended", "killed")
	f.GPU(0).Util(61)
	h.sees("titan", "readings again", func(m queue.Machine) bool {
		return m.GPUs[0].UtilizationPercent != nil && *m.GPUs[0].UtilizationPercent == 61
	})
	if after := d.probe(); after == before {
		t.Errorf("the probe is process %d again", after)
	}
	h.end(a, 0)
	if r := h.result(ref); r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("%s after attempt %d", r.State, r.Attempt)
	}
}

// freezer is a folder of the old freezer: what is frozen in it sleeps in state D, and not even SIGKILL wakes it. So is a
// process that a driver has swallowed.
func freezer(t *testing.T) (freeze func(pid int), thaw func()) {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/freezer", fmt.Sprintf("berth-e2e-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("NOT RUN: a process in state D needs root and the freezer of cgroup v1: %v", err)
	}
	set := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		set("freezer.state", "THAWED")
		for end := time.Now().Add(patience); os.Remove(dir) != nil; {
			if time.Now().After(end) {
				t.Errorf("%s cannot be removed", dir)
				return
			}
			time.Sleep(10 * time.Millisecond) // the kernel tells nobody that a group has become empty
		}
	})
	return func(pid int) { set("cgroup.procs", strconv.Itoa(pid)); set("freezer.state", "FROZEN") },
		func() { set("freezer.state", "THAWED") }
}

// killedInVain waits until a process has been sent SIGKILL and sleeps on in state D.
func killedInVain(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatalf("process %d has died: %v", pid, err)
		}
		_, pending, _ := strings.Cut(string(text), "\nShdPnd:\t")
		mask, _ := strconv.ParseUint(strings.Fields(pending)[0], 16, 64)
		if mask&(1<<(uint(syscall.SIGKILL)-1)) != 0 && strings.Contains(string(text), "\nState:\tD") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is not killed:\n%s", pid, text)
		}
		time.Sleep(20 * time.Millisecond) // there is no event for a pending signal
	}
}

// The driver swallows the probe: it sleeps in state D and cannot be killed. The GPUs are suspect after 2 s and
// unreadable after 10 s, nothing new comes on them, what runs goes on, and no second probe is sent after the first.
func TestProbeInStateDIsNeverDoubled(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	freeze, thaw := freezer(t)
	d := h.work("titan", f)
	stuck := d.probe()
	ref := h.submit(1)
	a := h.started()
	freeze(stuck)
	d.says("gpu source", "suspect")
	d.says("gpu source", "unreadable")
	g := h.gpuIs("titan", 0, "unreadable")
	if !strings.Contains(g.Why, "has not answered") || g.MemoryFreeMB != nil || g.UtilizationPercent != nil {
		t.Errorf("why %q; what is not known must be absent: %+v", g.Why, g)
	}
	killedInVain(t, stuck)
	waits, cpu := h.submit(1), h.submit(0)
	c := h.started()
	if c.ref != cpu.String() {
		t.Errorf("with a swallowed probe %+v started", c)
	}
	h.end(c, 0)
	h.result(cpu)
	h.end(a, 0)
	if r := h.result(ref); r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("the run: %s after attempt %d, %+v", r.State, r.Attempt, r.Attempts)
	}
	if again := d.probe(); again != stuck {
		t.Errorf("a second probe, %d, beside %d, which does not die", again, stuck)
	}
	if s := h.state(waits); s != job.Queued {
		t.Errorf("the job that waits is %s", s)
	}
	thaw()
	d.says("gpus can be read again")
	b := h.started()
	if b.ref != waits.String() {
		t.Errorf("%+v", b)
	}
	if again := d.probe(); again == stuck {
		t.Error("the killed probe serves on")
	}
	h.end(b, 0)
	h.result(waits)
}

// A run ends while the driver is silent: nobody can say whether its memory is free, so its slot is not given again, and
// when the driver speaks again and still lists the process, it is dirty for that.
func TestRunThatEndsBesideASilentDriverLeavesItsSlotDirty(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	first := h.submit(1)
	a := h.started()
	f.GPU(0).Processes(fakenvml.Process{PID: a.pid, MemoryMB: 9000, SM: 50})
	h.sees("titan", "the run's memory", func(m queue.Machine) bool {
		return m.GPUs[0].MemoryFreeMB != nil && *m.GPUs[0].MemoryFreeMB < 16000
	})
	f.Hang(true)
	d.says("gpu source", "suspect")
	h.end(a, 0)
	d.says("gpu_dirty", "is not known")
	if r := h.result(first); r.State != job.Succeeded {
		t.Errorf("%+v", r)
	}
	second := h.submit(1)
	f.Hang(false)
	if g := h.gpuIs("titan", 0, "dirty"); !hasAll(g.Why, []string{"run " + first.String() + ".1"}) {
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

// Without a library that can be used, nvidia-smi stands in: runs are measured, foreign processes named.
func TestNvidiaSMIStandsIn(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2, "nvmlDeviceGetUUID")
	other := child(t)
	f.GPU(1).Processes(fakenvml.Process{PID: other.Pid, MemoryMB: 20000})
	d := h.work("titan", f)
	d.says("gpus are read with nvidia-smi", "too old")
	if g := h.gpuIs("titan", 1, "foreign"); !hasAll(strings.Join(g.Foreign, " "), []string{"sleep", fmt.Sprint(other.Pid), "20000 MB"}) {
		t.Errorf("named as %q", g.Foreign)
	}
	ref := h.submit(1)
	a := h.started()
	if a.gpus != f.uuids[0] {
		t.Errorf("given %s", a.gpus)
	}
	f.GPU(0).Processes(fakenvml.Process{PID: a.pid, MemoryMB: 5000})
	f.GPU(0).Util(44)
	h.sees("titan", "the run's load, and nobody foreign", func(m queue.Machine) bool {
		g := m.GPUs[0]
		return g.UtilizationPercent != nil && *g.UtilizationPercent == 44 && len(g.Foreign) == 0
	})
	h.end(a, 0)
	if r := h.result(ref); r.GPUMonitoring == nil || r.GPUMonitoring.GPUStats["0"].Utilization.Max != 44 {
		t.Errorf("measured %+v", r.GPUMonitoring)
	}
}

// A card that is added under a running worker is said, not given: a restart, which costs no run, takes it in.
func TestCardThatAppearsIsSaidAndGivenAfterARestart(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	f.Set("count", "1")
	d := h.work("titan", f)
	first := h.submit(1)
	a := h.started()
	f.Set("count", "2")
	h.sees("titan", "the new card, as a warning", func(m queue.Machine) bool {
		return len(m.GPUs) == 1 && len(m.Warnings) == 1 && hasAll(m.Warnings[0], []string{f.uuids[1], "restart the worker"})
	})
	d.detach()
	h.work("titan", f)
	second := h.submit(1)
	b := h.started()
	if b.gpus != f.uuids[1] {
		t.Errorf("after the restart: %+v", b)
	}
	h.end(a, 0)
	h.end(b, 0)
	if r := h.result(first); r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("the run over the restart: %s after attempt %d", r.State, r.Attempt)
	}
	h.result(second)
}
