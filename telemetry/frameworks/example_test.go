package frameworks_test

import (
	"fmt"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/frameworks"
)

// What an operator reads at the start of a worker, and in `worker check`.
func ExampleMissing() {
	devices := []telemetry.Device{
		{UUID: "GPU-a", Index: 0, Name: "NVIDIA L4", Driver: "570.10"},
		{UUID: "GPU-b", Index: 1, Name: "NVIDIA L4", Driver: "570.10"},
	}
	report := frameworks.Report{
		Interpreter: "/opt/lab/bin/python3",
		Frameworks: map[string]frameworks.Seen{
			frameworks.Torch:      {Version: "2.6.0", Count: 2, UUIDs: []string{"GPU-a", "GPU-b"}},
			frameworks.CuPy:       {Version: "13.4", Count: 1, UUIDs: []string{"GPU-a"}},
			frameworks.TensorFlow: {Version: "2.18", Count: 0},
		},
	}
	for _, sentence := range frameworks.Missing(devices, report) {
		fmt.Println(sentence)
	}
	// Output:
	// cupy 13.4 (/opt/lab/bin/python3) sees 1 of 2 GPUs, not GPU 1 (NVIDIA L4, GPU-b): jobs that require it get none of those
	// tensorflow 2.18 (/opt/lab/bin/python3) sees none of 2 GPUs: its build may need a newer driver than this machine's (570.10)
}
