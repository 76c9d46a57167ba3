package queue

import (
	"context"
	"fmt"
)

// The verbs about one GPU of a machine.
const (
	verbQuarantine = "quarantine"
	verbRestore    = "restore"
	verbProbe      = "probe"
)

// Quarantine takes a GPU of a machine out of service until it is restored: no new job gets it, what runs on it goes on.
// gpu is a UUID, the beginning of one, or an index.
func (q *Queue) Quarantine(ctx context.Context, machine, gpu, by, reason string) error {
	return q.askMachine(ctx, verbQuarantine, machine, by, controlRequest{GPU: gpu, Reason: reason})
}

// Restore puts a quarantined GPU back into service, whoever took it out.
func (q *Queue) Restore(ctx context.Context, machine, gpu, by, reason string) error {
	return q.askMachine(ctx, verbRestore, machine, by, controlRequest{GPU: gpu, Reason: reason})
}

// Probe has a machine test at once a GPU that a fault took out of service, instead of after its time of quiet. One that
// an operator took out stays out, and one in service is left alone.
func (q *Queue) Probe(ctx context.Context, machine, gpu, by, reason string) error {
	return q.askMachine(ctx, verbProbe, machine, by, controlRequest{GPU: gpu, Reason: reason})
}

// serveGPU does what is asked about a GPU of this worker's machine, and keeps who asked and why.
func (q *Queue) serveGPU(ctx context.Context, verb, user string, r controlRequest, own MachineControl) controlAnswer {
	do := map[string]func(gpu, by, reason string) (string, error){
		verbQuarantine: own.Quarantine, verbRestore: own.Restore, verbProbe: own.Probe,
	}[verb]
	if do == nil {
		return failure(fmt.Errorf("%w: this worker cannot %s GPUs", ErrBadRequest, verb))
	}
	uuid, err := do(r.GPU, user, r.Reason)
	if err != nil {
		return failure(err)
	}
	q.noteDeed(ctx, Event{Kind: verb, By: user, Machine: own.Machine, Text: r.Reason, Facts: map[string]string{"gpu": uuid}})
	return controlAnswer{}
}
