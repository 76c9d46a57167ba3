package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr[T any](v T) *T { return &v }

func gpu(util, peakMB, percent, temp, watts float64) job.GPUStats {
	return job.GPUStats{
		Name:               "NVIDIA A10",
		Utilization:        &job.CountedStat{Stat: job.Stat{Max: 100, Mean: util}, Samples: 41},
		MemoryUsedMB:       &job.Stat{Min: 400, Max: peakMB, Mean: peakMB / 2},
		MemoryUsagePercent: &job.Stat{Max: percent},
		TemperatureC:       &job.Stat{Min: 31, Max: temp, Mean: temp - 5},
		PowerDrawW:         &job.Stat{Min: 20, Max: watts * 1.2, Mean: watts},
		EnergyJoules:       ptr(watts * 41),
	}
}

func trained() report.Input {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ramp := make([]float64, 90)
	for i := range ramp {
		ramp[i] = float64(i) * 100 / 89
	}
	return report.Input{
		Requirements: &job.Requirements{GPUs: 2, CPUs: 8, MemoryMB: 65536},
		Utilization:  map[string][]float64{"0": ramp},
		Result: job.Result{
			Number: 1842, Name: "llama3\x1b[2J-tune", State: job.Succeeded, Machine: "titan", Attempt: 2,
			StartedAt: &start, RunSeconds: 41.2, QueuedSeconds: 0.8,
			GPUMonitoring: &job.Aggregate{MonitoringDurationSeconds: 41, SampleCount: 41, GPUStats: map[string]job.GPUStats{
				"10": gpu(12, 700, 2.8483, 40, 60), "0": gpu(61.4, 8090, 32.9183, 71, 148)}},
			Warnings: []string{"the cards are of different speed"},
			Report: &job.Report{GPUHours: 0.0229, EnergyJoules: ptr(8528.0), CPUSeconds: ptr(49.4), PeakMemoryMB: ptr(int64(3200)),
				Advice: []string{"peak 7.9 of 24 GiB: -m 10Gi would let two run on a card"}},
		},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	plain := trained()
	cpu := trained()
	cpu.Result.GPUMonitoring, cpu.Result.Report.EnergyJoules, cpu.Result.Report.GPUHours = nil, nil, 0
	cpu.Result.Report.Advice, cpu.Result.Warnings, cpu.Requirements = nil, nil, nil
	cpu.Result.State, cpu.Result.Attempt, cpu.Result.Index = job.Failed, 1, ptr(17)
	cpu.Result.Reason = "exit code 33"
	short := trained()
	short.Result.GPUMonitoring.SampleCount = 0
	short.Result.GPUMonitoring.GPUStats = map[string]job.GPUStats{"0": {Name: "NVIDIA A10"}}
	short.Result.Report = nil

	for name, c := range map[string]struct {
		in   report.Input
		term screen.Terminal
	}{
		"wide":   {plain, screen.Terminal{}},
		"narrow": {plain, screen.Terminal{TTY: true, Width: 60}},
		"color":  {plain, screen.Terminal{TTY: true, Width: 120, Color: true}},
		"cpu":    {cpu, screen.Terminal{}},
		"short":  {short, screen.Terminal{}},
	} {
		var b bytes.Buffer
		if err := report.Write(&b, c.term, c.in); err != nil {
			t.Fatal(err)
		}
		compare(t, filepath.Join("testdata", name+".txt"), b.String())
		if c.term.Width == 0 || c.term.Color {
			continue
		}
		for line := range strings.Lines(b.String()) {
			if w := screen.Width(strings.TrimSuffix(line, "\n")); w > c.term.Width {
				t.Errorf("%s: line of %d columns on a screen of %d: %q", name, w, c.term.Width, line)
			}
		}
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// A job that never ran has no report.
func TestNeverRan(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := report.Write(&b, screen.Terminal{}, report.Input{Result: job.Result{Number: 7, State: job.Cancelled}})
	if err != nil || b.Len() > 0 {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

// The report is drawn from a result as any subscriber gets it.
func ExampleWrite() {
	var r job.Result
	err := json.Unmarshal([]byte(`{"version":1,"number":7,"name":"hello","state":"succeeded","machine":"titan",
		"started_at":"2026-05-01T12:00:00Z","queued_seconds":0.5,"run_seconds":3,"gpu_monitoring":{"sample_count":3,
		"monitoring_duration_seconds":3,"gpu_stats":{"0":{"name":"NVIDIA A10","utilization":{"min":0,"max":80,"mean":50,"samples":3}}}}}`), &r)
	if err != nil {
		panic(err)
	}
	_ = report.Write(os.Stdout, screen.Terminal{}, report.Input{Result: r})
	// Output:
	// job 7 hello  succeeded
	//   ran 3s on titan, waited 0.5s
	//   GPU      ████████████············  50 % of 1 GPU
	//   GPU 0    NVIDIA A10  mean 50 %
}
