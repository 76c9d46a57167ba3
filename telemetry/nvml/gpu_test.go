//go:build gpu && cgo && linux

package nvml_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/conformance"
	"github.com/berthq/berth/telemetry/nvml"
	"github.com/berthq/berth/telemetry/smi"
)

// These run on a real card, with `make gpu`. Where there is none they say aloud that they did not run, and why; where
// there must be one (BERTH_GPU=required) that is a failure.

func openReal(t *testing.T) *nvml.Source {
	t.Helper()
	src, err := nvml.Open(t.Context(), nvml.Options{})
	if err != nil && os.Getenv("BERTH_GPU") != "required" {
		t.Skipf("NOT RUN: no NVIDIA GPU answers here: %v", err)
	}
	if err != nil {
		t.Fatalf("no NVIDIA GPU answers here: %v", err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

func TestGPUConformance(t *testing.T) {
	openReal(t)
	conformance.Run(t, func(t *testing.T) *conformance.Machine {
		return &conformance.Machine{Open: func() (telemetry.Source, error) { return nvml.Open(t.Context(), nvml.Options{}) }}
	})
}

func TestGPUSMIConformance(t *testing.T) {
	openReal(t)
	conformance.Run(t, func(t *testing.T) *conformance.Machine {
		return &conformance.Machine{Open: func() (telemetry.Source, error) { return smi.Open(t.Context(), smi.Options{}) }}
	})
}

// What the card says, for the record.
func TestGPUReadings(t *testing.T) {
	snap := take(t, openReal(t))
	text, err := json.MarshalIndent(snap, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
}

// NVML and nvidia-smi look at the same card: what does not move must be equal, what moves must be near.
func TestGPUSourcesAgree(t *testing.T) {
	lib := take(t, openReal(t))
	src, err := smi.Open(t.Context(), smi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	tool, err := src.Snapshot(t.Context())
	if err != nil || len(tool.Devices) != len(lib.Devices) {
		t.Fatalf("%d devices by nvidia-smi, %d by NVML, %v", len(tool.Devices), len(lib.Devices), err)
	}
	for i, d := range lib.Devices {
		other, a, b := tool.Devices[i], lib.Readings[i], tool.Readings[i]
		if d.UUID != other.UUID || d.Name != other.Name || d.ComputeCapability != other.ComputeCapability || d.Driver != other.Driver {
			t.Errorf("%+v\n%+v", d, other)
		}
		if diff := *a.MemoryTotalMB - *b.MemoryTotalMB; diff < -1 || diff > 1 {
			t.Errorf("total memory: %d and %d", *a.MemoryTotalMB, *b.MemoryTotalMB)
		}
		if diff := *a.MemoryFreeMB - *b.MemoryFreeMB; diff < -2048 || diff > 2048 {
			t.Errorf("free memory: %d and %d", *a.MemoryFreeMB, *b.MemoryFreeMB)
		}
		if diff := *a.TemperatureC - *b.TemperatureC; diff < -10 || diff > 10 {
			t.Errorf("temperature: %g and %g", *a.TemperatureC, *b.TemperatureC)
		}
	}
}

// A reading through the probe must cost at most a fiftieth of the CPU that nvidia-smi takes.
func TestGPUCostAgainstSMI(t *testing.T) {
	src := openReal(t)
	take(t, src)
	const readings = 200
	own := func() time.Duration { return cpuTime(t, syscall.Getpid()) + cpuTime(t, src.ProbePID()) }
	before, began := own(), time.Now()
	for range readings {
		take(t, src)
	}
	each, wall := (own()-before)/readings, time.Since(began)/readings
	const starts = 5
	var tool time.Duration
	for range starts {
		cmd := exec.Command("nvidia-smi", "-q", "-x")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		tool += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	tool /= starts
	t.Logf("one reading: %s of CPU, %s by the clock, %s in the library; nvidia-smi: %s of CPU: %.0f times as much",
		each, wall, src.LibraryTime(), tool, float64(tool)/float64(each))
	if tool < 50*each {
		t.Errorf("nvidia-smi costs %s, a reading %s: want at least 50 times less", tool, each)
	}
}
