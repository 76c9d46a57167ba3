package worker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/sim"
	"github.com/berthq/berth/worker"
)

// A whole Berth in one process: a broker, a machine with two simulated GPUs, and one job.
func Example() {
	if err := runOneJob(); err != nil {
		fmt.Println(err)
	}
	// Output: job 1 succeeded on GPU 0 of gpu07
}

func runOneJob() error {
	dir, err := os.MkdirTemp("", "berth-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broker, err := natsembed.Start(natsembed.Options{StoreDir: filepath.Join(dir, "broker")})
	if err != nil {
		return err
	}
	defer broker.Shutdown()
	nc, err := broker.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx := context.Background()
	q, err := queue.Open(ctx, nc, queue.Options{})
	if err != nil {
		return err
	}
	defer q.Close()
	w, err := worker.New(worker.Config{
		Machine: "gpu07", Store: filepath.Join(dir, "worker"), Queue: q,
		Source: func(_ context.Context, holders func() map[string][]int) (telemetry.Source, error) {
			cards, err := sim.Parse("2x24Gi")
			if err != nil {
				return nil, err
			}
			return sim.New(cards, holders)
		},
		Slots: gpuslots.Options{LockDir: filepath.Join(dir, "locks")},
		// Where this program is root its jobs are too. Users gives each person an account instead.
		AllowRoot: true,
	})
	if err != nil {
		return err
	}
	claim, drain := context.WithCancel(ctx)
	defer drain()
	done := make(chan error, 1)
	go func() { done <- w.Run(claim, ctx) }()

	_, err = q.Submit(ctx, job.Job{
		Project: "lab", User: "ann", Requirements: job.Requirements{GPUs: 1},
		Spec: job.Spec{Command: job.Command{"true"}, Workdir: dir},
	})
	if err != nil {
		return err
	}
	for r, err := range q.Results(ctx, queue.ResultOptions{Follow: true}) {
		if err != nil {
			return err
		}
		fmt.Printf("job %d %s on GPU %s of %s\n", r.Number, r.State, r.GPUInfo.DeviceIDs[0], r.Machine)
		break
	}
	drain()
	return <-done
}
