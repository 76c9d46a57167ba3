package e2e

import (
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestHungLibraryTakesNoNewWork(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	d := h.work("titan", f)
	first := h.submit(1)
	a := h.started()
	f.Hang(true)
	d.says("gpu source", "suspect")
	second := h.submit(1)
	cpu := h.submit(0)
	c := h.started()
	if c.ref != cpu.String() {
		t.Fatalf("while NVML hangs %+v started", c)
	}
	h.end(c, 0)
	h.result(cpu)
	h.end(a, 0) // a run ends as ever
	if r := h.result(first); r.State != job.Succeeded || len(r.Attempts) > 1 {
		t.Errorf("%s, %+v", r.State, r.Attempts)
	}
	if s := h.state(second); s != job.Queued {
		t.Errorf("the second job is %s", s)
	}
	f.Hang(false)
	b := h.started()
	if b.ref != second.String() {
		t.Errorf("%+v", b)
	}
	h.end(b, 0)
	h.result(second)
}

func TestCrashOfTheLibraryCostsReadingsOnly(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	f.Crash(true)
	d.says("nvml probe ended")
	f.Crash(false)
	f.GPU(0).Util(55)
	h.sees("titan", "readings again", func(m queue.Machine) bool {
		return m.GPUs[0].UtilizationPercent != nil && *m.GPUs[0].UtilizationPercent == 55
	})
	h.end(a, 0)
	if r := h.result(ref); r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("%s after attempt %d: %+v", r.State, r.Attempt, r.Attempts)
	}
}

func TestOldDriverWithoutNewerFunctions(t *testing.T) {
	h := newHouse(t)
	f := newFake(t, 1, "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetFieldValues",
		"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetRemappedRows", "nvmlEventSetCreate")
	d := h.work("titan", f)
	d.says("lacks functions", "nvmlDeviceGetTotalEnergyConsumption")
	ref := h.submit(1)
	a := h.started()
	f.GPU(0).Util(40)
	h.sees("titan", "what the library can still tell", func(m queue.Machine) bool {
		g := m.GPUs[0]
		return g.MemoryFreeMB != nil && g.UtilizationPercent != nil && *g.UtilizationPercent == 40
	})
	h.end(a, 0)
	if r := h.result(ref); r.State != job.Succeeded {
		t.Errorf("%+v", r)
	}
}

func TestWithoutADriverOnlyJobsWithoutAGPURun(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	f.Set("init_ret", "9") // driver not loaded; nvidia-smi says the same
	d := h.work("titan", f)
	d.says("WARN", "no gpu found")
	gpu, cpu := h.submit(1), h.submit(0)
	a := h.started()
	if a.ref != cpu.String() || a.gpus != "-" {
		t.Errorf("%+v", a)
	}
	h.end(a, 0)
	h.result(cpu)
	if s := h.state(gpu); s != job.Queued {
		t.Errorf("the job with a GPU is %s", s)
	}
}

func TestDriverUpgradedUnderTheWorker(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	newer := newFake(t, 0, "nvmlDeviceGetRemappedRows")
	f.replaceLibrary(t, newer.Library)
	f.Set("driver", "590.11")
	f.Set("init_ret", "18") // library and driver differ, in the middle of an upgrade
	f.Crash(true)
	d.says("nvml probe ended")
	d.says("nvml probe ended", "differ")
	next := h.submit(1)
	h.end(a, 0)
	if r := h.result(ref); r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("%+v", r)
	}
	f.Crash(false)
	f.Set("init_ret", "0")
	d.says("lacks functions", "590.11")
	h.end(h.started(), 0)
	if r := h.result(next); r.State != job.Succeeded {
		t.Errorf("%+v", r)
	}
}

func (f *fake) replaceLibrary(t *testing.T, with string) {
	t.Helper()
	copyFile(t, with, f.Library+".new")
	if err := renameFile(f.Library+".new", f.Library); err != nil {
		t.Fatal(err)
	}
}
