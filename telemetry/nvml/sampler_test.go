//go:build cgo && linux

package nvml_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/fakenvml"
)

// The whole way: library, probe, sampler, and a run's own view of it.
func TestRunSeenThroughSampler(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 2)
	m.GPU(0).Util(50)
	m.GPU(0).Processes(
		fakenvml.Process{PID: os.Getpid(), MemoryMB: 6000, SM: 45},
		fakenvml.Process{PID: os.Getppid(), MemoryMB: 1000, SM: 5},
	)
	src := open(t, patient(m))
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{
		BusyPeriod: 100 * time.Millisecond,
		Attribute: func(pid int) string {
			if pid == os.Getpid() {
				return "7.1"
			}
			return ""
		},
	})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(t.Context()) }()
	t.Cleanup(func() { <-done }) // after the test's context has ended, before the source closes
	meter := s.Meter(fakenvml.UUID(0))
	wait := func(what string, ok func() bool) {
		t.Helper()
		deadline := time.After(time.Minute)
		for !ok() {
			select {
			case <-s.Changed():
			case <-deadline:
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	wait("three samples", func() bool { return meter.Aggregate().SampleCount >= 3 })
	snap, _ := s.Latest()
	own, foreign := snap.Readings[0].Processes[0], snap.Readings[0].Processes[1]
	if own.Run != "7.1" || !strings.Contains(own.Command, "nvml.test") || !foreign.Foreign() || foreign.User == "" {
		t.Errorf("%+v\n%+v", own, foreign)
	}
	m.GPU(0).Util(90)
	m.XID(0, 79)
	m.GPU(0).Set("ecc_unc", "2")
	kinds := map[telemetry.FaultKind]bool{}
	for len(kinds) < 2 {
		select {
		case f := <-s.Faults():
			if !f.Fatal || f.UUID != fakenvml.UUID(0) {
				t.Errorf("%+v", f)
			}
			kinds[f.Kind] = true
		case <-time.After(time.Minute):
			t.Fatalf("faults: %v", kinds)
		}
	}
	wait("the busy card", func() bool { return meter.Aggregate().GPUStats["0"].Utilization.Max == 90 })
	a := meter.Stop()
	stats := a.GPUStats["0"]
	if len(a.GPUStats) != 1 || stats.Utilization.Min != 50 || stats.MemoryUsedMB.Max != 7000 || stats.PowerDrawW.Mean != 60 || *stats.EnergyJoules != 0 {
		t.Errorf("%+v", stats)
	}
	if n := len(meter.Faults()); n != 2 {
		t.Errorf("the meter saw %d faults", n)
	}
	if series := meter.Series().GPUs["0"]; len(series.Utilization) == 0 || len(series.PowerDrawW) == 0 {
		t.Errorf("%+v", series)
	}
}
