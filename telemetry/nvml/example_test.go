//go:build cgo && linux

package nvml_test

import (
	"context"
	"fmt"

	"github.com/berthq/berth/telemetry/nvml"
)

// A machine without a driver says so; the program that asked goes on.
func ExampleOpen() {
	_, err := nvml.Open(context.Background(), nvml.Options{Library: "/nonexistent/libnvidia-ml.so.1"})
	fmt.Println(err)
	// Output:
	// libnvidia-ml.so.1 not found: no NVIDIA driver is installed here (or, in a container, not passed in)
}
