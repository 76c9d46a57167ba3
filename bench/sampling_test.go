package bench

import (
	"testing"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/sim"
)

// One reading of 8 simulated GPUs, with meters on all: the CPU time it takes, once a second, in percent of a core.
func BenchmarkSampling(b *testing.B) {
	cards, err := sim.Parse(gpus)
	if err != nil {
		b.Fatal(err)
	}
	source, err := sim.New(cards, func() map[string][]int { return nil })
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close()
	sampler := telemetry.NewSampler(source, telemetry.SamplerOptions{})
	first, err := sampler.Refresh(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range first.Devices {
		sampler.Meter(d.UUID)
	}
	before := ownCPU(b)
	for b.Loop() {
		if _, err := sampler.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	each := (ownCPU(b) - before).Seconds() / float64(b.N)
	target(b, 100*each, "1Hz-%core", "at most", 0.2)
}
