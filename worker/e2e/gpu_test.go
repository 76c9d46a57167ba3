//go:build gpu

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// alloc builds the program that takes GPU memory.
func alloc(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "alloc")
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-o", program, "testdata/alloc.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("build alloc.c: %v\n%s", err, out)
	}
	return program
}

// The whole house on a real card: the worker as it is finds it, pins a real CUDA program to it, knows the memory as that
// run's and nobody else's, measures it, and gives the card again only when the driver has let go of it.
func TestGPURealCardUnderTheWorker(t *testing.T) {
	if out, err := exec.Command("nvidia-smi", "-L").CombinedOutput(); err != nil {
		if os.Getenv("BERTH_GPU") == "required" {
			t.Fatalf("no NVIDIA GPU answers here: %v\n%s", err, out)
		}
		t.Skipf("NOT RUN: no NVIDIA GPU answers here: nvidia-smi -L: %v", err)
	}
	const holdsMB = 1024
	h := newHouse(t)
	d := h.work("real", nil, "--gpu-source", "nvml", "--gpus", "0", "--foreign", "ignore")
	m := h.sees("real", "its card", func(m queue.Machine) bool { return len(m.GPUs) == 1 && m.GPUs[0].MemoryFreeMB != nil })
	t.Logf("%+v", m.GPUs[0])
	uses := alloc(t)
	for range 2 { // the second one gets the card that the first has left
		ref := h.submit(1, func(j *job.Job) {
			j.Spec.Command = job.Command{"sh", "-c", uses + ` 1024 "$PWD/held.$BERTH_JOB_ID" & PID=$!
until [ -s "held.$BERTH_JOB_ID" ]; do kill -0 $PID || exit 98; done` + h.script("")} // what it leaves running is ended with it
		})
		a := h.started()
		if a.gpus != m.GPUs[0].UUID {
			t.Errorf("pinned to %s", a.gpus)
		}
		h.sees("real", "the run's memory, and nobody foreign who holds as much", func(m queue.Machine) bool {
			g := m.GPUs[0]
			return g.MemoryFreeMB != nil && g.MemoryTotalMB-*g.MemoryFreeMB >= holdsMB && len(g.Jobs) == 1
		})
		h.end(a, 0)
		r := h.result(ref)
		if r.State != job.Succeeded || r.GPUMonitoring == nil {
			t.Fatalf("%+v\nthe worker said: %q", r, d.lines)
		}
		for key, g := range r.GPUMonitoring.GPUStats {
			if g.MemoryUsedMB == nil || g.MemoryUsedMB.Max < holdsMB {
				t.Errorf("GPU %s measured %+v", key, g)
			}
		}
		t.Logf("report %+v, warnings %q", r.Report, r.Warnings)
	}
}
