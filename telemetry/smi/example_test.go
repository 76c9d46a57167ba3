package smi_test

import (
	"context"
	"fmt"

	"github.com/berthq/berth/telemetry/smi"
)

// Without a driver the error says what to do.
func ExampleOpen() {
	_, err := smi.Open(context.Background(), smi.Options{Path: "/nonexistent/nvidia-smi"})
	fmt.Println(err)
	// Output:
	// nvidia-smi cannot be started: fork/exec /nonexistent/nvidia-smi: no such file or directory: no NVIDIA driver is installed here, or it is not in PATH
}
