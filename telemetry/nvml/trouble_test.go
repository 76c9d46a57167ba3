//go:build cgo && linux

package nvml_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
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

func TestEveryGauge(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 1)
	g := m.GPU(0)
	g.Util(97)
	g.Set("temp", "81")
	g.Set("power_mw", "312500")
	g.Set("energy_mj", "123456789")
	g.Set("throttle", "100") // 0x64: power cap, software thermal, hardware thermal
	g.Set("ecc_unc", "3")
	g.Set("remap", "1 2 1 0")
	g.Processes(
		fakenvml.Process{PID: os.Getpid(), MemoryMB: 4096, SM: 80},
		fakenvml.Process{PID: 1, MemoryMB: -1, Kind: 'G', SM: -1},
	)
	r := take(t, open(t, patient(m))).Readings[0]
	for _, c := range []struct {
		what string
		got  *float64
		want float64
	}{
		{"utilisation", r.UtilizationPercent, 97}, {"temperature", r.TemperatureC, 81},
		{"power", r.PowerW, 312.5}, {"energy", r.EnergyJoules, 123456.789},
	} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s: want %g, got %v", c.what, c.want, c.got)
		}
	}
	if *r.MemoryTotalMB != 24576 || *r.MemoryUsedMB != 4096 || *r.MemoryFreeMB != 24576-576-4096 {
		t.Errorf("memory: %d used, %d free of %d", *r.MemoryUsedMB, *r.MemoryFreeMB, *r.MemoryTotalMB)
	}
	if got := strings.Join(r.Throttle, " "); got != "power_cap sw_thermal hw_thermal" {
		t.Errorf("throttle: %s", got)
	}
	if *r.ECCUncorrected != 3 || !r.RemapPending || r.RemapFailed || *r.RecoveryAction != 0 || r.Fault != nil {
		t.Errorf("health: %+v", r)
	}
	if len(r.Processes) != 2 || !r.ProcessesKnown {
		t.Fatalf("processes: %+v", r.Processes)
	}
	own, screen := r.Processes[0], r.Processes[1]
	if own.PID != os.Getpid() || *own.MemoryMB != 4096 || *own.UtilizationPercent != 80 || own.Graphics {
		t.Errorf("computing process: %+v", own)
	}
	if screen.PID != 1 || screen.MemoryMB != nil || screen.UtilizationPercent != nil || !screen.Graphics {
		t.Errorf("drawing process: %+v", screen)
	}
}

// required are the functions without which there is no reading at all.
var required = []string{
	"nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString", // go-nvml's own
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",
}

// optional is every other function of the library, found in the library itself: a new one cannot be forgotten here.
func optional(t *testing.T) []string {
	t.Helper()
	f, err := elf.Open(fakenvml.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Name, "nvml") && !slices.Contains(required, s.Name) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// A function the driver's library lacks costs its gauge, whichever it is, and nothing else: each is missing once, beside
// others that it does not stand in for, and all at once.
func TestMissingFunctions(t *testing.T) {
	t.Parallel()
	shows := map[string]func(telemetry.Reading) bool{
		"nvmlDeviceGetUtilizationRates":          func(r telemetry.Reading) bool { return r.UtilizationPercent == nil },
		"nvmlDeviceGetPowerUsage":                func(r telemetry.Reading) bool { return r.PowerW == nil },
		"nvmlDeviceGetTotalEnergyConsumption":    func(r telemetry.Reading) bool { return r.EnergyJoules == nil },
		"nvmlDeviceGetTotalEccErrors":            func(r telemetry.Reading) bool { return r.ECCUncorrected == nil },
		"nvmlDeviceGetFieldValues":               func(r telemetry.Reading) bool { return r.RecoveryAction == nil },
		"nvmlDeviceGetMemoryInfo_v2":             func(r telemetry.Reading) bool { return *r.MemoryUsedMB == 1000+576 },
		"nvmlDeviceGetTemperature":               func(r telemetry.Reading) bool { return *r.TemperatureC == 35 },
		"nvmlDeviceGetCurrentClocksEventReasons": func(r telemetry.Reading) bool { return len(r.Throttle) == 1 },
	}
	names := optional(t)
	if len(names) < 30 {
		t.Fatalf("only %d functions: %v", len(names), names)
	}
	const groups = 8 // a compiler run for each; what stands in for another is its neighbour by name, and in another group
	for k := range groups {
		var group []string
		for i := k; i < len(names); i += groups {
			group = append(group, names[i])
		}
		t.Run(strings.Join(group, ","), func(t *testing.T) {
			t.Parallel()
			m := fakenvml.New(t, 2, group...)
			m.GPU(0).Set("throttle", "4")
			m.GPU(0).Processes(fakenvml.Process{PID: os.Getpid(), MemoryMB: 1000})
			m.GPU(1).MIG(0, 4000) // whole, when the functions about parts are missing
			snap := take(t, open(t, patient(m)))
			r := snap.Readings[0]
			if !healthy(snap) || len(snap.Devices) != 2 || r.Err != "" || r.MemoryTotalMB == nil || !r.ProcessesKnown || len(r.Processes) != 1 {
				t.Errorf("%s: %+v", snap.Err, r)
			}
			for _, fn := range group {
				if shows := shows[fn]; shows != nil && !shows(r) {
					t.Errorf("the reading does not show that %s is missing: %+v", fn, r)
				}
			}
		})
	}
	t.Run("all of them", func(t *testing.T) {
		t.Parallel()
		m := fakenvml.New(t, 1, names...)
		src := open(t, patient(m))
		m.XID(0, 79) // nobody can hear it
		snap := take(t, src)
		if r := snap.Readings[0]; !healthy(snap) || r.UUID != fakenvml.UUID(0) || r.MemoryTotalMB != nil || r.PowerW != nil || r.ProcessesKnown {
			t.Errorf("%+v", snap)
		}
	})
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
