//go:build cgo && linux

package nvml_test

import (
	"debug/elf"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/fakenvml"
)

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
