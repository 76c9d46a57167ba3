package smi

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
)

func TestFigure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"81559 MiB": 81559, " 70.12 W ": 70.12, "35 C": 35, "0 %": 0, "12": 12, "2 GiB": 2048, "512 KiB": 0.5, "-3 C": -3,
	} {
		if got := figure(text); got == nil || *got != want {
			t.Errorf("%q: got %v, want %g", text, got, want)
		}
	}
	for _, text := range []string{"", "N/A", "[N/A]", "[Not Supported]", "ERR!", "Unknown Error", "GPU is lost", "nan W", "inf", "0x10 W",
		"Requested functionality has been deprecated", "W 70"} {
		if got := figure(text); got != nil {
			t.Errorf("%q: got %g, want nothing", text, *got)
		}
	}
}

// The reports in testdata are written by hand after the forms that drivers of these years print.
func TestReports(t *testing.T) {
	t.Parallel()
	parse := func(name string) telemetry.Snapshot {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseReport(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r.snapshot(map[string]string{"GPU-11111111-aaaa": "8.0"}, time.Unix(1, 0))
	}
	old := parse("driver-470.xml")
	r := old.Readings[0]
	if len(old.Devices) != 1 || *r.PowerW != 43.61 || *r.MemoryFreeMB != 40000 || strings.Join(r.Throttle, " ") != "hw_slowdown" || *r.ECCUncorrected != 2 {
		t.Errorf("driver 470: %+v %+v", old.Devices, r)
	}
	if old.Devices[0].ComputeCapability != "8.0" || !r.ProcessesKnown || len(r.Processes) != 1 || r.Processes[0].PID != 4242 {
		t.Errorf("driver 470: %+v %+v", old.Devices, r.Processes)
	}
	odd := parse("consumer.xml")
	r = odd.Readings[0]
	if r.PowerW == nil || *r.PowerW != 18.5 || r.UtilizationPercent != nil || r.TemperatureC == nil || r.ECCUncorrected != nil || r.RecoveryAction != nil {
		t.Errorf("consumer card: %+v", r)
	}
	if len(r.Processes) != 2 || r.Processes[0].MemoryMB != nil || !r.Processes[0].Graphics {
		t.Errorf("consumer card: %+v", r.Processes)
	}
	sick := parse("sick.xml")
	if len(sick.Devices) != 2 {
		t.Fatalf("a GPU cut up by MIG is left out: %+v", sick.Devices)
	}
	if f := sick.Readings[0].Fault; f == nil || f.Kind != telemetry.FaultLost {
		t.Errorf("lost: %+v", sick.Readings[0])
	}
	if f := sick.Readings[1].Fault; f == nil || f.Kind != telemetry.FaultRecovery || sick.Readings[1].ProcessesKnown {
		t.Errorf("in need of a reset: %+v", sick.Readings[1])
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	got := parseCapabilities([]byte("GPU-a, 9.0\nGPU-b,8.6\nGPU-c, [N/A]\nwarning: something\n\"GPU-d, 7.0\nGPU-e, 8.0, more\n"))
	if len(got) != 2 || got["GPU-a"] != "9.0" || got["GPU-b"] != "8.6" {
		t.Errorf("%v", got)
	}
}

func TestSameBus(t *testing.T) {
	t.Parallel()
	if !sameBus("00000000:3B:00.0", "0000:3b:00.0") || sameBus("00000000:3B:00.0", "0000:3C:00.0") || sameBus("00000001:3B:00.0", "0000:3B:00.0") {
		t.Error("bus ids")
	}
}

// Whatever is printed: no panic, and nothing in a snapshot that cannot be.
func FuzzReport(f *testing.F) {
	names, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("<nvidia_smi_log><gpu><uuid>GPU-\x00</uuid><processes><process_info><pid>-1</pid></process_info></processes></gpu></nvidia_smi_log>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseReport(data)
		if err != nil {
			return
		}
		snap := r.snapshot(parseCapabilities(data), time.Unix(1, 0))
		if len(snap.Devices) != len(snap.Readings) {
			t.Fatal("devices and readings")
		}
		for i, d := range snap.Devices {
			r := snap.Readings[i]
			if d.UUID == "" || r.UUID != d.UUID {
				t.Errorf("UUIDs %q and %q", d.UUID, r.UUID)
			}
			for _, v := range []*float64{r.UtilizationPercent, r.TemperatureC, r.PowerW} {
				if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
					t.Errorf("gauge %g", *v)
				}
			}
			for _, p := range r.Processes {
				if p.PID <= 0 {
					t.Errorf("pid %d", p.PID)
				}
			}
		}
	})
}
