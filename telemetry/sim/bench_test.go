package sim_test

import (
	"os"
	"testing"

	"github.com/berthq/berth/telemetry/sim"
)

// BenchmarkSnapshot8 is one reading of 8 simulated cards held by one process.
func BenchmarkSnapshot8(b *testing.B) {
	config, err := sim.Parse("8x80Gi")
	if err != nil {
		b.Fatal(err)
	}
	held := map[string][]int{}
	s, err := sim.New(config, func() map[string][]int { return held })
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	devices, err := s.Devices(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range devices {
		held[d.UUID] = []int{os.Getpid()}
	}
	for b.Loop() {
		if _, err := s.Snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
