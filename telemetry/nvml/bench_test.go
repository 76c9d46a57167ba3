//go:build cgo && linux

package nvml_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/fakenvml"
	"github.com/berthq/berth/telemetry/nvml"
)

// BenchmarkSnapshot8 is one bulk reading of 8 GPUs with a process on each. library-us is the time in the library (the
// fake opens a file for each gauge), beyond-us everything else: two pipes, JSON twice, the watch over it.
// The figure to keep: beyond-us under 1000.
func BenchmarkSnapshot8(b *testing.B) {
	src := open8(b)
	var library time.Duration
	for b.Loop() {
		if snap, err := src.Snapshot(b.Context()); err != nil || snap.Health != telemetry.HealthOK {
			b.Fatal(snap.Err, err)
		}
		library += src.LibraryTime()
	}
	n := float64(b.N)
	b.ReportMetric(float64(library.Microseconds())/n, "library-us/op")
	b.ReportMetric(float64((b.Elapsed()-library).Microseconds())/n, "beyond-us/op")
}

// BenchmarkSampling8At1Hz is what a sampler of 8 GPUs costs with a meter running: CPU time of this process and of the
// probe, in per cent of one core, while one iteration is ten seconds. The figure to keep: under 0.2 beyond the library.
func BenchmarkSampling8At1Hz(b *testing.B) {
	const seconds = 10
	src := open8(b)
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(b.Context()) }()
	devices, err := src.Devices(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var uuids []string
	for _, d := range devices {
		uuids = append(uuids, d.UUID)
	}
	if _, err := s.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	probe := src.ProbePID()
	var cpu, probeCPU, library time.Duration
	samples := 0
	for b.Loop() {
		m := s.Meter(uuids...)
		before, probeBefore := cpuTime(b, os.Getpid()), cpuTime(b, probe)
		for range seconds {
			<-s.Changed()
			library += src.LibraryTime()
		}
		probeUsed := cpuTime(b, probe) - probeBefore
		probeCPU += probeUsed
		cpu += cpuTime(b, os.Getpid()) - before + probeUsed
		samples += m.Stop().SampleCount
	}
	if src.ProbePID() != probe {
		b.Error("a process was started while sampling")
	}
	perCent := func(d time.Duration) float64 { return 100 * d.Seconds() / b.Elapsed().Seconds() }
	b.ReportMetric(perCent(cpu), "%core")
	b.ReportMetric(perCent(probeCPU), "%core-probe")
	b.ReportMetric(perCent(library), "%core-library")
	b.ReportMetric(perCent(cpu-library), "%core-beyond")
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
}

func open8(b *testing.B) *nvml.Source {
	b.Helper()
	m := fakenvml.New(b, 8)
	for i := range 8 {
		m.GPU(i).Processes(fakenvml.Process{PID: os.Getpid(), MemoryMB: 4096, SM: 50})
	}
	src, err := nvml.Open(b.Context(), nvml.Options{Library: m.Library})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = src.Close() })
	return src
}

// cpuTime is what all threads of a process have used, exactly: stat counts in hundredths of a second.
func cpuTime(b testing.TB, pid int) time.Duration {
	b.Helper()
	var sum time.Duration
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + thread.Name() + "/schedstat")
		if err != nil {
			continue // a thread that ended
		}
		ns, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}
