package queue_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/queue"
)

// A job from submit to result: what a submitter and a worker do with the queue.
func Example() {
	dir, err := os.MkdirTemp("", "berth-example-")
	check(err)
	defer os.RemoveAll(dir)
	broker, err := natsembed.Start(natsembed.Options{StoreDir: dir})
	check(err)
	defer broker.Shutdown()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nc, err := queue.Connect(ctx, queue.ConnectOptions{InProcess: broker, Token: broker.Token()})
	check(err)
	defer nc.Close()
	q, err := queue.Open(ctx, nc, queue.Options{})
	check(err)
	defer q.Close()

	receipt, err := q.Submit(ctx, job.Job{
		Project: "lab", User: "ada", Spec: job.Spec{Name: "hello", Command: job.Command{"echo", "hello"}},
	})
	check(err)
	fmt.Println("submitted job", receipt.Number)

	// The worker's side: the clerk puts the job on its lane, a pull takes it off.
	clerk, stopClerk := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- q.RunClerk(clerk) }()
	session, err := q.OpenSession(ctx, "machine-1", "start-1")
	check(err)
	puller, err := q.NewPuller(session)
	check(err)
	for changed := q.LanesChanged(); len(q.Lanes()) == 0; changed = q.LanesChanged() {
		<-changed
	}
	delivery, err := puller.Next(ctx, []queue.Want{{Lane: q.Lanes()[0].Lane}})
	check(err)
	claim, err := delivery.Claim(ctx, nil)
	check(err)
	fmt.Println("running", claim.Job.Spec.Command, "as attempt", claim.Attempt())
	check(claim.Finish(ctx, job.Result{Outcome: job.OutcomeSucceeded, Exit: &job.Exit{}}))

	result, err := q.WaitResult(ctx, queue.JobRef(receipt.Number))
	check(err)
	fmt.Println("it", result.State)

	check(puller.Close(ctx))
	check(session.Close(ctx))
	stopClerk()
	check(<-done)
	// Output:
	// submitted job 1
	// running [echo hello] as attempt 1
	// it succeeded
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
