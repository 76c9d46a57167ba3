package gpuslots_test

import (
	"fmt"
	"testing"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
)

// thousand is a pool of 1,000 GPUs, half of them in use, all a little different.
func thousand(b testing.TB, placement gpuslots.Placement) *box {
	devs := devices(1000, 81920)
	m := newBox(b, 0, gpuslots.Options{Devices: devs, SlotsPerGPU: 4, Placement: placement})
	for i := range m.cards {
		m.processes(i, int64(i*37%5000))
		m.cards[i].UtilizationPercent = ptr(float64(i % 50))
	}
	m.look(1)
	for i := range 250 {
		m.get(fmt.Sprint("alone", i), alone(1000))
		m.get(fmt.Sprint("shared", i), shared(1000))
	}
	m.look(1)
	return m
}

// A placement decision among 1,000 GPUs, half of them in use: each must stay under 100 microseconds.
func BenchmarkPlacement(b *testing.B) {
	for name, req := range map[string]job.Requirements{
		"one":       alone(20000),
		"shared":    shared(20000),
		"eight":     {GPUs: 8, GPUMemoryMB: 20000},
		"constrain": {GPUs: 1, GPUModels: []string{"H100", "A100"}, MinCapability: "8.0"},
	} {
		b.Run(name, func(b *testing.B) {
			m := thousand(b, gpuslots.PlaceScore)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.pool.Room(req, noon); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("refused", func(b *testing.B) {
		m := thousand(b, gpuslots.PlaceScore)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.pool.Room(job.Requirements{GPUs: 990, GPUMemoryMB: 20000}, noon); err == nil {
				b.Fatal("there is no such room")
			}
		}
	})
}

func BenchmarkAcquireRelease(b *testing.B) {
	m := newBox(b, 8, gpuslots.Options{LockDir: b.TempDir()})
	b.ReportAllocs()
	for b.Loop() {
		a, err := m.try("1", alone(1000))
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Release(); err != nil {
			b.Fatal(err)
		}
		m.show("")
	}
}
