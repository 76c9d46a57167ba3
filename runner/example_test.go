package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// A command on a GPU, from its words to its exit.
func Example() {
	ctx := context.Background()
	store, _ := os.MkdirTemp("", "store")
	defer os.RemoveAll(store)
	r, err := runner.New(runner.Options{StoreDir: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()

	devices := []telemetry.Device{{UUID: "GPU-6f2c", Index: 3, Name: "H100"}}
	ids := runner.IDs{JobID: "1842", Attempt: 1, StateDir: r.StateDir("1842.1")}
	command, err := runner.Expand([]string{"sh", "-c", "echo job {{.JobID}} on $CUDA_VISIBLE_DEVICES; exit 3"}, runner.WordsOf(devices, ids))
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := r.Start(ctx, runner.Run{ID: "1842.1", Command: command, Env: runner.Environment(job.Spec{}, devices, ids), Dir: "/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	log := h.Log(0)
	defer log.Close()
	for {
		f, err := log.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		fmt.Printf("%s: %s", f.Stream, f.Data)
	}
	exit, _ := h.Wait(ctx)
	fmt.Println("exit", exit.Code)
	_ = h.Release()
	// Output:
	// stdout: job 1842 on GPU-6f2c
	// exit 3
}
