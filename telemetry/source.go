package telemetry

import (
	"context"
	"errors"
	"sync"
)

// Source reads the GPUs of this machine. telemetry/conformance says what every one must do.
//
// A source answers in about two seconds or says suspect, also when the driver under it does not: the loop that reads
// it must never hang. Its methods may be called from several goroutines; the sampler calls one at a time.
type Source interface {
	// Name says what reads: nvml, nvidia-smi, sim, none.
	Name() string
	// Devices lists the devices found, MIG devices in place of a GPU that is cut up.
	Devices(ctx context.Context) ([]Device, error)
	// Snapshot reads every gauge and the processes of all devices. A device that does not answer costs its own
	// reading (Err, Fault), a source that does not answer its health; the error is for a closed source and an ended
	// context.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Faults are events as they happen. Closed by Close. One reader.
	Faults() <-chan Fault
	// Close ends everything the source has started.
	Close() error
}

// Sentinels of all sources.
var (
	ErrClosed   = errors.New("the GPU source is closed")
	ErrNoGPU    = errors.New("no NVIDIA GPU found on this machine")
	ErrNotBuilt = errors.New("this program was built without cgo and cannot read NVML: use a release build, or --gpu-source nvidia-smi")
)

// None is the source of a machine without GPUs.
type None struct {
	why    string
	faults chan Fault
	once   sync.Once
}

// NewNone says why there is no GPU: what was tried and how it failed. It stands in every snapshot.
func NewNone(why string) *None { return &None{why: why, faults: make(chan Fault)} }

// Name is "none".
func (*None) Name() string { return "none" }

// Devices is empty.
func (*None) Devices(context.Context) ([]Device, error) { return nil, nil }

// Snapshot is empty, with health none. Its time is the sampler's to set.
func (n *None) Snapshot(context.Context) (Snapshot, error) {
	return Snapshot{Health: HealthNone, Err: n.why}, nil
}

// Faults never has one.
func (n *None) Faults() <-chan Fault { return n.faults }

// Close closes Faults.
func (n *None) Close() error {
	n.once.Do(func() { close(n.faults) })
	return nil
}
