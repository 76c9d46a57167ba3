package gpuslots_test

import (
	"fmt"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

// A pool is shown what the GPUs look like, and gives them out until there is no room.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pool, err := gpuslots.New(gpuslots.Options{
		Machine: "gpu01",
		Devices: []telemetry.Device{
			{UUID: "GPU-a", Index: 0, Name: "NVIDIA A100-SXM4-80GB", MemoryTotalMB: 81920},
			{UUID: "GPU-b", Index: 1, Name: "NVIDIA A100-SXM4-80GB", MemoryTotalMB: 81920},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	used, foreign, idle, busy := int64(0), int64(60000), 0.0, 97.0
	pool.Observe(telemetry.Snapshot{At: now, Readings: []telemetry.Reading{
		{UUID: "GPU-a", MemoryUsedMB: &used, UtilizationPercent: &idle, ProcessesKnown: true},
		{UUID: "GPU-b", MemoryUsedMB: &foreign, UtilizationPercent: &busy, ProcessesKnown: true, Processes: []telemetry.Process{
			{PID: 4711, MemoryMB: &foreign, User: "anna", Command: "python"},
		}},
	}}, now)

	need := job.Requirements{GPUs: 1, GPUMemoryMB: 40960, GPUModels: []string{"A100"}}
	run, err := pool.TryAcquire(gpuslots.Request{Holder: "1842.1", Req: need, Now: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Devices[0].Index, run.Scores[0])

	_, err = pool.TryAcquire(gpuslots.Request{Holder: "1843.1", Req: need, Now: now})
	fmt.Println(err)
	refusal, _ := gpuslots.AsRefusal(err)
	fmt.Println(refusal.Reason)

	fmt.Println(run.Release(), run.Release() != nil)
	// Output:
	// 0 1
	// needs 1 A100 with 40960 MB free; no GPU would do: GPU 0 is held by run 1842.1 alone; GPU 1 is used to 97 % (limit 50 %) by python (pid 4711, anna, 60000 MB)
	// Resources
	// <nil> true
}
