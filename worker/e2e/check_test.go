package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// finding is one line of `worker check`.
type finding struct{ What, Verdict, Found, Do string }

// check runs `worker check` on a fake machine.
func (h *house) check(f *fake, args ...string) (found []finding, code int) {
	h.t.Helper()
	all := append([]string{"check", "--name", "checked", "--store", filepath.Join(h.dir, "checked"), "--server", h.broker.URL(), "-o", "json"}, args...)
	cmd := exec.Command(program, all...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_CONFIG_HOME=" + h.dir, "BERTH_WORKER_ALLOW_ROOT=true"}, f.Env()...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal(out, &found); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	return found, cmd.ProcessState.ExitCode()
}

// hasFinding reports whether one of the findings is about that, with that verdict, and has all those words.
func hasFinding(all []finding, what, verdict string, words ...string) bool {
	for _, f := range all {
		if f.What == what && f.Verdict == verdict && hasAll(f.Found+" "+f.Do, words) {
			return true
		}
	}
	return false
}

// `worker check` says on the machine itself what works: the GPUs by the driver, each interpreter with what its frameworks
// see of them, the isolation, the locks, the broker.
func TestWorkerCheckSaysWhatWorksAndWhatToDo(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	venv := environment(t, f.uuids[1])
	t.Run("well", func(t *testing.T) {
		found, code := h.check(f, "--python", venv+",/nowhere/python3")
		for _, want := range [][]string{
			{"GPUs", "ok", "2 GPUs by nvml", "NVIDIA Fake 24GB", "driver 580.65.06"},
			{"Python", "warning", "sees 1 of 2 GPUs", f.uuids[0]},
			{"Python", "warning", "/nowhere/python3", "--python"},
			{"isolation", "ok"},
			{"GPU locks", "ok"},
			{"broker", "ok", "answers in"},
			{"clock", "ok"},
		} {
			if !hasFinding(found, want[0], want[1], want[2:]...) {
				t.Errorf("nothing of %q in %+v", want, found)
			}
		}
		if code != 0 {
			t.Errorf("exit code %d, with nothing that keeps jobs away", code)
		}
	})
	t.Run("driver not loaded", func(t *testing.T) {
		f.Set("init_ret", "9")
		found, code := h.check(f, "--python", "none")
		if !hasFinding(found, "GPUs", "warning", "not loaded", "install the NVIDIA driver") || code != 0 {
			t.Errorf("exit code %d, %+v", code, found)
		}
		found, code = h.check(f, "--python", "none", "--gpu-source", "nvml")
		if !hasFinding(found, "GPUs", "fails", "modprobe nvidia", "--gpu-source") || code != 1 {
			t.Errorf("NVML and nothing else: exit code %d, %+v", code, found)
		}
		f.Set("init_ret", "0")
	})
	t.Run("library without a function that is needed", func(t *testing.T) {
		old := newFake(t, 1, "nvmlDeviceGetUUID")
		found, _ := h.check(old, "--python", "none")
		if !hasFinding(found, "GPUs", "ok", "1 GPU by nvidia-smi") {
			t.Errorf("%+v", found)
		}
	})
}
