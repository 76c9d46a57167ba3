package telemetry_test

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/berthq/berth/telemetry"
)

// What a library cannot mean becomes an absent gauge, one warning, and never a panic.
func TestNonsense(t *testing.T) {
	t.Parallel()
	type snapshot = telemetry.Snapshot
	for _, c := range []struct {
		name string
		do   func(*snapshot)
		says string
		ok   func(snapshot) bool
	}{
		{"negative memory", func(s *snapshot) { s.Readings[0].MemoryUsedMB = i64(-5) }, "used memory",
			func(s snapshot) bool { return s.Readings[0].MemoryUsedMB == nil && s.Readings[0].MemoryTotalMB != nil }},
		{"more used than there is", func(s *snapshot) { s.Readings[0].MemoryUsedMB = i64(24577) }, "used memory",
			func(s snapshot) bool { return s.Readings[0].MemoryUsedMB == nil }},
		{"more free than there is", func(s *snapshot) { s.Readings[0].MemoryFreeMB = i64(1 << 40) }, "free memory",
			func(s snapshot) bool { return s.Readings[0].MemoryFreeMB == nil }},
		{"negative total", func(s *snapshot) { s.Readings[0].MemoryTotalMB = i64(-1) }, "total memory",
			func(s snapshot) bool { return s.Readings[0].MemoryTotalMB == nil }},
		{"101 per cent", func(s *snapshot) { s.Readings[0].UtilizationPercent = f64(101) }, "utilisation",
			func(s snapshot) bool { return s.Readings[0].UtilizationPercent == nil }},
		{"not a number", func(s *snapshot) { s.Readings[0].PowerW = f64(math.NaN()) }, "power",
			func(s snapshot) bool { return s.Readings[0].PowerW == nil }},
		{"infinite", func(s *snapshot) { s.Readings[0].EnergyJoules = f64(math.Inf(1)) }, "energy",
			func(s snapshot) bool { return s.Readings[0].EnergyJoules == nil }},
		{"boiling lead", func(s *snapshot) { s.Readings[0].TemperatureC = f64(1749) }, "temperature",
			func(s snapshot) bool { return s.Readings[0].TemperatureC == nil }},
		{"process without pid", func(s *snapshot) {
			s.Readings[0].Processes = []telemetry.Process{{PID: 0}, {PID: -3}, {PID: 9, MemoryMB: i64(-1)}}
		}, "without PID",
			func(s snapshot) bool {
				p := s.Readings[0].Processes
				return len(p) == 1 && p[0].PID == 9 && p[0].MemoryMB == nil
			}},
		{"one process in two lists", func(s *snapshot) {
			s.Readings[0].Processes = []telemetry.Process{{PID: 9, MemoryMB: i64(5)}, {PID: 9, MemoryMB: i64(7), Graphics: true}}
		}, "",
			func(s snapshot) bool {
				p := s.Readings[0].Processes
				return len(p) == 1 && *p[0].MemoryMB == 7 && !p[0].Graphics
			}},
		{"other UUID", func(s *snapshot) { s.Devices[0].UUID, s.Readings[0].UUID = "GPU-x", "GPU-x" }, "appeared",
			func(s snapshot) bool {
				lost := s.Readings[0].Fault
				return len(s.Devices) == 3 && s.Devices[0].UUID == "GPU-a" && lost != nil && lost.Kind == telemetry.FaultLost && s.Devices[2].UUID == "GPU-x"
			}},
		{"no UUID", func(s *snapshot) { s.Devices[1].UUID, s.Readings[1].UUID = "", "" }, "without UUID",
			func(s snapshot) bool { return len(s.Devices) == 2 && s.Readings[1].Fault != nil }},
		{"fewer devices", func(s *snapshot) { s.Devices, s.Readings = s.Devices[:1], s.Readings[:1] }, "no more",
			func(s snapshot) bool { return len(s.Devices) == 2 && s.Readings[1].Fault.Fatal }},
		{"fewer readings", func(s *snapshot) { s.Readings = s.Readings[:1] }, "no more",
			func(s snapshot) bool { return len(s.Readings) == 2 && s.Readings[1].MemoryFreeMB == nil }},
		{"one device twice", func(s *snapshot) {
			s.Devices, s.Readings = append(s.Devices, s.Devices[0]), append(s.Readings, s.Readings[0])
		}, "twice", func(s snapshot) bool { return len(s.Devices) == 2 && len(s.Readings) == 2 }},
		{"order changed", func(s *snapshot) {
			s.Devices = []telemetry.Device{s.Devices[1], s.Devices[0]}
			s.Readings[0], s.Readings[1] = s.Readings[1], s.Readings[0]
		}, "", func(s snapshot) bool { return s.Devices[0].UUID == "GPU-a" && *s.Readings[1].MemoryFreeMB == 2 }},
		{"nothing at all", func(s *snapshot) { *s = snapshot{} }, "gpu=GPU-b kind=lost",
			func(s snapshot) bool { return len(s.Devices) == 2 && s.Readings[0].Fault != nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := newScripted("GPU-a", "GPU-b")
			src.set(func(s *snapshot) {
				for i := range s.Readings {
					s.Readings[i].MemoryTotalMB, s.Readings[i].MemoryUsedMB, s.Readings[i].MemoryFreeMB = i64(24576), i64(0), i64(int64(i+1))
				}
			})
			var log bytes.Buffer
			s := telemetry.NewSampler(src, telemetry.SamplerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			refresh := func() snapshot {
				snap, err := s.Refresh(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return snap
			}
			refresh()
			src.set(c.do)
			for range 3 {
				if snap := refresh(); !c.ok(snap) {
					t.Fatalf("got %+v", snap)
				}
			}
			if n := strings.Count(log.String(), c.says); c.says != "" && n != 1 {
				t.Errorf("%d warnings with %q, want one:\n%s", n, c.says, log.String())
			}
		})
	}
}
