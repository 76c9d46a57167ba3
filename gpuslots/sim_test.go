package gpuslots_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// box is a machine of cards whose gauges and clock the test sets.
type box struct {
	t     testing.TB
	pool  *gpuslots.Pool
	mu    sync.Mutex
	now   time.Time
	cards []telemetry.Reading
}

func devices(n int, memoryMB int64) []telemetry.Device {
	out := make([]telemetry.Device, n)
	for i := range out {
		out[i] = telemetry.Device{
			UUID: uuid(i), Index: i, Name: "NVIDIA A100-SXM4-80GB", MemoryTotalMB: memoryMB, ComputeCapability: "8.0",
		}
	}
	return out
}

func uuid(i int) string { return fmt.Sprintf("GPU-%08x-0000-0000-0000-000000000000", i) }

// newBox has n idle cards of 24 GiB unless o says otherwise.
func newBox(t testing.TB, n int, o gpuslots.Options) *box {
	t.Helper()
	b := &box{t: t, now: noon}
	if o.Devices == nil {
		o.Devices = devices(n, 24576)
	}
	o.Now = b.clock
	pool, err := gpuslots.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.pool = pool
	for _, d := range o.Devices {
		b.cards = append(b.cards, telemetry.Reading{
			UUID: d.UUID, MemoryUsedMB: ptr[int64](0), MemoryFreeMB: ptr(d.MemoryTotalMB),
			MemoryTotalMB: ptr(d.MemoryTotalMB), UtilizationPercent: ptr(0.0), ProcessesKnown: true,
		})
	}
	b.look(0)
	return b
}

func (b *box) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// look lets time pass and shows the pool what the cards look like then.
func (b *box) look(d time.Duration) {
	b.mu.Lock()
	b.now = b.now.Add(d)
	b.mu.Unlock()
	b.show(telemetry.HealthOK)
}

func (b *box) show(health telemetry.SourceHealth) {
	readings := make([]telemetry.Reading, len(b.cards))
	copy(readings, b.cards)
	b.pool.Observe(telemetry.Snapshot{At: b.clock(), Readings: readings, Health: health}, b.clock())
}

// processes puts processes on a card, and the memory they use in its gauge beside extra.
func (b *box) processes(card int, extraMB int64, procs ...telemetry.Process) {
	used := extraMB
	for _, p := range procs {
		if p.MemoryMB != nil {
			used += *p.MemoryMB
		}
	}
	r := &b.cards[card]
	r.Processes = procs
	r.MemoryUsedMB = ptr(used)
	r.MemoryFreeMB = ptr(*r.MemoryTotalMB - used)
}

func ours(run string, mb int64) telemetry.Process {
	return telemetry.Process{PID: 100, MemoryMB: &mb, Run: run, Command: "train"}
}

func theirs(pid int, mb int64) telemetry.Process {
	return telemetry.Process{PID: pid, MemoryMB: &mb, User: "anna", Command: "/usr/bin/python3 notebook.py"}
}

func (b *box) try(holder string, req job.Requirements) (*gpuslots.Allocation, error) {
	return b.pool.TryAcquire(gpuslots.Request{Holder: holder, Req: req, Now: b.clock()})
}

func (b *box) get(holder string, req job.Requirements) *gpuslots.Allocation {
	b.t.Helper()
	a, err := b.try(holder, req)
	if err != nil {
		b.t.Fatalf("%s: %v", holder, err)
	}
	return a
}

// refused wants a refusal with that word.
func (b *box) refused(reason gpuslots.Reason, req job.Requirements) *gpuslots.Refusal {
	b.t.Helper()
	_, err := b.try("probe", req)
	r, ok := gpuslots.AsRefusal(err)
	if !ok {
		b.t.Fatalf("want a refusal %s, got %v", reason, err)
	}
	if r.Reason != reason {
		b.t.Fatalf("want %s, got %s: %v", reason, r.Reason, r)
	}
	return r
}

func (b *box) state(card int) gpuslots.CardState { return b.pool.Status(b.clock()).GPUs[card].State }

func alone(mb int64) job.Requirements { return job.Requirements{GPUs: 1, GPUMemoryMB: mb} }
func shared(mb int64) job.Requirements {
	return job.Requirements{GPUs: 1, GPUMemoryMB: mb, Share: job.Shared}
}

func index(a *gpuslots.Allocation) int { return a.Devices[0].Index }
