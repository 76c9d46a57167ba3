package smi_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/conformance"
	"github.com/berthq/berth/telemetry/fakenvml"
	"github.com/berthq/berth/telemetry/smi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are limits that a test can wait for. The script starts a hundred processes: a loaded machine takes its time.
func quick(m *fakenvml.Machine) smi.Options {
	return smi.Options{Path: m.SMI, Suspect: 2 * time.Second, Unreadable: 6 * time.Second}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) *conformance.Machine {
		m := fakenvml.New(t, 2)
		return &conformance.Machine{
			Open: func() (telemetry.Source, error) {
				opts := quick(m)
				if !strings.HasSuffix(t.Name(), "/Hang") {
					opts.Suspect, opts.Unreadable = 30*time.Second, time.Minute
				}
				return smi.Open(t.Context(), opts)
			},
			Hold: func(gpu, pid int, mb int64) {
				m.GPU(gpu).Processes(fakenvml.Process{PID: pid, MemoryMB: max(mb, 512)})
			},
			Lose: func(gpu int, on bool) {
				if on {
					m.GPU(gpu).Lose()
				} else {
					m.GPU(gpu).Return()
				}
			},
			Hang: m.Hang,
			Bare: func(gpu int) { m.GPU(gpu).Unset("power_mw") },
		}
	})
}

func TestEveryGauge(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 1)
	g := m.GPU(0)
	g.Util(97)
	g.Set("temp", "81")
	g.Set("power_mw", "312500")
	g.Set("throttle", "100")
	g.Set("ecc_unc", "3")
	g.Set("remap", "1 2 1 0")
	g.Processes(fakenvml.Process{PID: os.Getpid(), MemoryMB: 4096}, fakenvml.Process{PID: 1, MemoryMB: -1, Kind: 'G'})
	src, err := smi.Open(t.Context(), smi.Options{Path: m.SMI, Suspect: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	snap, err := src.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, r := snap.Devices[0], snap.Readings[0]
	if d.ComputeCapability != "9.0" || d.Driver != "580.65.06" || d.PCIBusID != "00000000:01:00.0" || d.MemoryTotalMB != 24576 {
		t.Errorf("%+v", d)
	}
	if *r.UtilizationPercent != 97 || *r.TemperatureC != 81 || *r.PowerW != 312.5 || r.EnergyJoules != nil {
		t.Errorf("gauges: %+v", r)
	}
	if *r.MemoryUsedMB != 4096 || *r.MemoryFreeMB != 24576-576-4096 {
		t.Errorf("memory: %d used, %d free", *r.MemoryUsedMB, *r.MemoryFreeMB)
	}
	if got := strings.Join(r.Throttle, " "); got != "power_cap sw_thermal hw_thermal" {
		t.Errorf("throttle: %s", got)
	}
	if *r.ECCUncorrected != 3 || !r.RemapPending || r.RemapFailed || r.Fault != nil || *r.RecoveryAction != 0 {
		t.Errorf("health: %+v", r)
	}
	if len(r.Processes) != 2 || *r.Processes[0].MemoryMB != 4096 || r.Processes[1].MemoryMB != nil || !r.Processes[1].Graphics {
		t.Errorf("processes: %+v", r.Processes)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	script := func(text string) string {
		path := t.TempDir() + "/nvidia-smi"
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noDriver := fakenvml.New(t, 1)
	noDriver.Set("init_ret", "9")
	for _, c := range []struct{ name, path, says string }{
		{"not there", "/nonexistent/nvidia-smi", "no NVIDIA driver is installed"},
		{"no driver", noDriver.SMI, "couldn't communicate with the NVIDIA driver"},
		{"no GPU", fakenvml.New(t, 0).SMI, telemetry.ErrNoGPU.Error()},
		{"silent", script("exit 0"), "printed no report"},
		{"cut off", script("echo '<nvidia_smi_log><gpu>'"), "cut off"},
		{"nonsense", script("echo hello there"), "hello there"},
		{"endless", script("exec yes"), "did not answer within 2s and was killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := smi.Options{Path: c.path}
			if c.name == "endless" {
				opts.Unreadable = 2 * time.Second
			}
			src, err := smi.Open(t.Context(), opts)
			if err == nil {
				_ = src.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q, got %v", c.says, err)
			}
		})
	}
}

// A hung nvidia-smi is killed with its whole group, and none is started beside it.
func TestNoSecondBesideOneThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := fakenvml.New(t, 1)
	path := dir + "/nvidia-smi"
	text := "#!/bin/sh\necho started >>" + dir + "/log\nexec " + m.SMI + ` "$@"` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	src, err := smi.Open(t.Context(), smi.Options{Path: path, Suspect: 100 * time.Millisecond, Unreadable: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	m.Hang(true)
	starts := func() int {
		log, err := os.ReadFile(dir + "/log")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), "started")
	}
	before := starts()
	for range 5 {
		snap, err := src.Snapshot(t.Context())
		if err != nil || snap.Health != telemetry.HealthSuspect || len(snap.Readings) != 1 {
			t.Errorf("%+v, %v", snap, err)
		}
	}
	if n := starts() - before; n > 1 {
		t.Errorf("%d started beside each other", n)
	}
	if err := src.Close(); err != nil { // kills it
		t.Error(err)
	}
	if _, err := src.Snapshot(context.Background()); !errors.Is(err, telemetry.ErrClosed) {
		t.Error(err)
	}
}
