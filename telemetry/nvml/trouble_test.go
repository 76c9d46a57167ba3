//go:build cgo && linux

package nvml_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/fakenvml"
	"github.com/berthq/berth/telemetry/nvml"
)

func open(t *testing.T, opts nvml.Options) *nvml.Source {
	t.Helper()
	src, err := nvml.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

func take(t *testing.T, src *nvml.Source) telemetry.Snapshot {
	t.Helper()
	snap, err := src.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func until(t *testing.T, src *nvml.Source, what string, ok func(telemetry.Snapshot) bool) telemetry.Snapshot {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		snap := take(t, src)
		if ok(snap) {
			return snap
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s; last: %+v", what, snap)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func healthy(s telemetry.Snapshot) bool { return s.Health == telemetry.HealthOK }

// required are the functions without which there is no reading at all.
var required = []string{
	"nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString", // go-nvml's own
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",
}

// A required function that is missing ends the probe before anybody can ask; the program that asked lives on.
func TestLibraryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	garbage := t.TempDir() + "/libnvidia-ml.so.1"
	if err := os.WriteFile(garbage, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	noDriver, upgraded, empty := fakenvml.New(t, 1), fakenvml.New(t, 1), fakenvml.New(t, 0)
	noDriver.Set("init_ret", "9")
	upgraded.Set("init_ret", "18")
	for _, c := range []struct{ name, library, says string }{
		{"none", "/nonexistent/libnvidia-ml.so.1", "no NVIDIA driver is installed"},
		{"garbage", garbage, "no NVIDIA driver is installed"},
		{"driver not loaded", noDriver.Library, "modprobe nvidia"},
		{"driver upgraded", upgraded.Library, "reboot"},
		{"no init", fakenvml.New(t, 1, "nvmlInit_v2", "nvmlInitWithFlags").Library, "nvmlInit"},
		{"no count", fakenvml.New(t, 1, "nvmlDeviceGetCount_v2").Library, "nvmlDeviceGetCount_v2"},
		{"no GPU", empty.Library, telemetry.ErrNoGPU.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, err := nvml.Open(t.Context(), nvml.Options{Library: c.library})
			if err == nil {
				_ = src.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q, got %v", c.says, err)
			}
		})
	}
}

func TestStartThatHangs(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 1)
	m.Hang(true)
	if _, err := nvml.Open(t.Context(), quick(m)); !errors.Is(err, nvml.ErrStuck) {
		t.Errorf("want %v, got %v", nvml.ErrStuck, err)
	}
}

// A probe that crashes at every question is started again, later and later, and works when the library does.
func TestCrash(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 2)
	var log logBuffer
	opts := quick(m)
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	src := open(t, opts)
	take(t, src)
	m.Crash(true)
	snap := until(t, src, "suspect", func(s telemetry.Snapshot) bool { return s.Health == telemetry.HealthSuspect })
	if len(snap.Readings) != 2 || snap.Readings[1].Err == "" {
		t.Errorf("%+v", snap)
	}
	until(t, src, "unreadable", func(s telemetry.Snapshot) bool { return s.Health == telemetry.HealthUnreadable })
	m.Crash(false)
	until(t, src, "well again", healthy)
	if !strings.Contains(log.String(), "SIGABRT") {
		t.Errorf("the log should say what ended the probe:\n%s", log.String())
	}
}

// While a probe cannot die there is no second one. SIGSTOP stands in for the driver's grip: the probe answers
// nothing, and unlike a sleeping driver lets go at the end.
func TestSilentProbeIsKilledAndReplaced(t *testing.T) {
	t.Parallel()
	src := open(t, quick(fakenvml.New(t, 1)))
	take(t, src)
	frozen := src.ProbePID()
	if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, src, "suspect", func(s telemetry.Snapshot) bool { return s.Health == telemetry.HealthSuspect })
	if now := src.ProbePID(); now != frozen {
		t.Errorf("a second probe (%d) beside the silent one (%d)", now, frozen)
	}
	until(t, src, "well again", healthy)
	if src.ProbePID() == frozen {
		t.Error("answered by a frozen probe")
	}
}

// One GPU that hangs does not hold up the others, and is not asked again until it has answered.
func TestOneGPUHangs(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 3)
	src := open(t, patient(m)) // the device's own limit is under test, not the library's
	take(t, src)
	m.GPU(1).Hang(true)
	snap := until(t, src, "GPU 1 hangs", func(s telemetry.Snapshot) bool { return s.Readings[1].Err != "" })
	for i, r := range snap.Readings {
		if hangs := r.MemoryFreeMB == nil; hangs != (i == 1) {
			t.Errorf("GPU %d: %+v", i, r)
		}
	}
	if !healthy(snap) {
		t.Errorf("the source is well: %s", snap.Err)
	}
	m.GPU(1).Hang(false)
	until(t, src, "GPU 1 answers", func(s telemetry.Snapshot) bool { return s.Readings[1].MemoryFreeMB != nil })
}

func TestFaultStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, attr, value string
		kind              telemetry.FaultKind
		says              string
	}{
		{"recovery action", "recovery", "1", telemetry.FaultRecovery, "GPU reset"},
		{"unknown recovery action", "recovery", "77", telemetry.FaultRecovery, "77"},
		{"reset required", "ret", "16", telemetry.FaultRecovery, ""},
		{"remap failed", "remap", "1 1 0 1", telemetry.FaultECC, "worn out"},
		{"not found", "ret", "28", telemetry.FaultLost, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := fakenvml.New(t, 1)
			src := open(t, patient(m))
			take(t, src)
			m.GPU(0).Set(c.attr, c.value)
			f := take(t, src).Readings[0].Fault
			if f == nil || f.Kind != c.kind || !f.Fatal || !strings.Contains(f.Text, c.says) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func TestUnknownErrorCostsReadingsOnly(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 2)
	src := open(t, patient(m))
	m.GPU(0).Set("ret", "999")
	snap := take(t, src)
	if r := snap.Readings[0]; r.Err == "" || r.Fault != nil || r.MemoryFreeMB != nil {
		t.Errorf("%+v", r)
	}
	if snap.Readings[1].MemoryFreeMB == nil {
		t.Error("the other GPU")
	}
}

// The driver is replaced under the running worker: the library in the probe is of no more use, a new probe is.
func TestDriverUpgraded(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 1)
	src := open(t, quick(m))
	take(t, src)
	before := src.ProbePID()
	m.GPU(0).Set("ret", "18")
	until(t, src, "suspect or worse", func(s telemetry.Snapshot) bool { return !healthy(s) })
	m.Set("driver", "590.10")
	m.GPU(0).Set("ret", "0")
	snap := until(t, src, "well again", healthy)
	if src.ProbePID() == before || snap.Devices[0].Driver != "590.10" {
		t.Errorf("probe %d before, %d now; driver %s", before, src.ProbePID(), snap.Devices[0].Driver)
	}
}

func TestMachineChangesWhileRunning(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 2)
	src := open(t, patient(m))
	take(t, src)
	m.GPU(0).Set("uuid", "GPU-00000000-another-card")
	until(t, src, "the other card", func(s telemetry.Snapshot) bool { return s.Devices[0].UUID == "GPU-00000000-another-card" })
	m.Set("count", "1")
	until(t, src, "one card", func(s telemetry.Snapshot) bool { return len(s.Devices) == 1 && s.Readings[0].MemoryFreeMB != nil })
}

func TestEventThatNamesNoGPU(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 2)
	src := open(t, patient(m))
	m.XID(-1, 79)
	select {
	case f := <-src.Faults():
		if f.UUID != "" || f.XID != 79 || !f.Fatal {
			t.Errorf("%+v", f)
		}
	case <-time.After(time.Minute):
		t.Fatal("no fault")
	}
}

func TestMIG(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 2)
	first := m.GPU(0).MIG(0, 9856)
	m.GPU(0).MIG(2, 4864)
	first.Processes(fakenvml.Process{PID: os.Getpid(), MemoryMB: 100})
	src := open(t, patient(m))
	snap := take(t, src)
	if len(snap.Devices) != 3 {
		t.Fatalf("%+v", snap.Devices)
	}
	for i, want := range []string{"0.0", "0.2", "1"} {
		if got := snap.Devices[i].Key(); got != want {
			t.Errorf("device %d: key %s, want %s", i, got, want)
		}
	}
	part, r := snap.Devices[0], snap.Readings[0]
	if !strings.HasPrefix(part.UUID, "MIG-") || part.Parent != fakenvml.UUID(0) || part.MemoryTotalMB != 9856 {
		t.Errorf("%+v", part)
	}
	if r.UtilizationPercent != nil || r.PowerW != nil || r.TemperatureC == nil || *r.MemoryUsedMB != 100 || len(r.Processes) != 1 {
		t.Errorf("%+v", r)
	}
	m.XID(0, 48)
	got := map[string]bool{}
	for range 2 {
		select {
		case f := <-src.Faults():
			got[f.UUID] = f.XID == 48
		case <-time.After(time.Minute):
			t.Fatalf("faults: %v", got)
		}
	}
	if !got[snap.Devices[0].UUID] || !got[snap.Devices[1].UUID] {
		t.Errorf("a card's fault is that of all its parts: %v", got)
	}
}

// A probe whose program has died must not stay behind.
func TestProbeEndsWithItsProgram(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 1)
	for name, hang := range map[string]bool{"idle": false, "in a hung call": true} {
		t.Run(name, func(t *testing.T) {
			in, questions, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			answers, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			m.Hang(hang)
			defer m.Hang(false)
			probe := exec.Command("/proc/self/exe")
			probe.Args = []string{nvml.ProbeName, m.Library}
			probe.ExtraFiles = []*os.File{in, out}
			if err := probe.Start(); err != nil {
				t.Fatal(err)
			}
			in.Close()
			out.Close()
			questions.Close()
			done := make(chan error, 1)
			go func() { done <- probe.Wait() }()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("it should end in order: %v", err)
				}
			case <-time.After(time.Minute):
				_ = probe.Process.Kill()
				<-done
				t.Error("the probe outlives its program")
			}
			answers.Close()
		})
	}
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
