package telemetry_test

import (
	"context"
	"fmt"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/sim"
)

// One sampler reads for everybody; a meter is one run's view of it.
func Example() {
	config, err := sim.Parse("2x24Gi")
	if err != nil {
		panic(err)
	}
	source, err := sim.New(config, nil)
	if err != nil {
		panic(err)
	}
	defer source.Close()

	ctx := context.Background()
	sampler := telemetry.NewSampler(source, telemetry.SamplerOptions{})
	snapshot, err := sampler.Refresh(ctx)
	if err != nil {
		panic(err)
	}
	meter := sampler.Meter(snapshot.Devices[1].UUID)
	if _, err := sampler.Refresh(ctx); err != nil { // in a worker, Sampler.Run does this each second
		panic(err)
	}
	aggregate := meter.Stop()
	for _, d := range snapshot.Devices {
		r, _ := snapshot.Reading(d.UUID)
		fmt.Println(d.Index, d.Name, *r.MemoryFreeMB, "MiB free")
	}
	fmt.Println(aggregate.SampleCount, "sample of GPU 1, peak", aggregate.GPUStats["1"].MemoryUsedMB.Max, "MiB")
	// Output:
	// 0 Simulated GPU 24Gi 24576 MiB free
	// 1 Simulated GPU 24Gi 24576 MiB free
	// 1 sample of GPU 1, peak 0 MiB
}
