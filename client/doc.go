// Package client is Berth for programs in Go: submit a job, wait for it, cancel it, and read results and events as they
// come or again from any point.
//
//	c, err := client.Connect(ctx, client.Options{Server: "nats://gpu-broker:4222", Token: token, User: "pipeline"})
//	receipt, err := c.Submit(ctx, job.Spec{Command: job.Command{"python", "train.py"}, Workdir: "/srv/train"})
//	result, err := c.Wait(ctx, client.Job(receipt.Number))
//
// It owns how a program says who it is and where the broker stands (options.go), and the few verbs (jobs.go, logs.go). All
// of them are the queue's, which the commands use too: what a program reads is what `berth results` and `berth events`
// print. The forms of specs and results are package job's.
//
// It never reads the environment (FromEnv takes what it is given), files, the clock or a global logger, starts nothing in
// the background but the connection, and prints nothing. It cannot run jobs.
//
// A reader that must not miss anything keeps Seq of the last entry it has worked on, and asks for From: Seq+1 when it is
// started again:
//
//	connected --Results{From: n+1, Follow}--> what is stored, then what comes --(ctx ends)--> done
//	                                      \-> ErrNotKept: the log begins later now; ErrNotYet: this is another broker
//
// While the broker is away a reader that follows waits, and goes on where it was.
//
// The same without Go: any NATS client, see docs/results.md and docs/events.md.
package client
