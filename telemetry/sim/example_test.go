package sim_test

import (
	"context"
	"fmt"

	"github.com/berthq/berth/telemetry/sim"
)

// A file says what else is on the machine.
func ExampleDecode() {
	config, err := sim.Decode([]byte(`
seed: docs
devices: [{name: NVIDIA H100, memory: 80Gi}]
foreign: [{gpu: 0, memory: 12Gi, utilization: 80, user: eve, command: jupyter}]
`))
	if err != nil {
		panic(err)
	}
	source, err := sim.New(config, nil)
	if err != nil {
		panic(err)
	}
	defer source.Close()
	snapshot, err := source.Snapshot(context.Background())
	if err != nil {
		panic(err)
	}
	r := snapshot.Readings[0]
	fmt.Println(snapshot.Devices[0].UUID, *r.MemoryFreeMB, "MiB free,", r.Processes[0].User, "runs", r.Processes[0].Command)
	// Output:
	// GPU-cecd0986-617d-18bc-f7f9-8bbbd6dce24f 69632 MiB free, eve runs jupyter
}
