package gpuslots_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

func TestPromiseCountsBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 8})
	b.get("1", shared(10000))
	b.get("2", shared(10000))
	r := b.refused(gpuslots.Memory, shared(5000))
	if got := r.PerGPU(); len(got) != 1 || got[0].Text != "has 4576 MB free of what is not promised, 5000 MB are wanted" {
		t.Errorf("got %+v", got)
	}
	b.get("3", shared(4576))
}

func TestLargerOfPromisedAndMeasuredCounts(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 8})
	b.get("1", shared(2000))
	b.get("2", shared(10000))
	b.processes(0, 576, ours("1", 9000), ours("2", 1000)) // 1 breaks its promise, 2 has not used its own yet
	b.look(time.Second)
	if got := b.pool.Status(b.clock()).GPUs[0].AvailableMB; got != 24576-576-9000-10000 {
		t.Errorf("available: %d MB", got)
	}
}

func TestForeignAndKeptMemoryIsNotGiven(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 4, ReserveMemoryMB: 1000})
	b.processes(0, 0, theirs(7, 8000))
	b.cards[0].MemoryFreeMB = ptr[int64](24576 - 8000 - 576) // the driver keeps the rest
	b.look(time.Second)
	b.refused(gpuslots.Foreign, shared(15001)) // it would fit without them
	b.get("1", shared(15000))
	b.refused(gpuslots.NeverFits, alone(23001))
}

// A job that allocates its memory late must not be taken for one that needs none.
func TestBurstOfLateAllocatorsNeverOverfills(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]job.Requirements{"promised": shared(2000), "nothing promised": shared(0)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const total, jobs = 24576, 100
			b := newBox(t, 2, gpuslots.Options{SlotsPerGPU: 12})
			type run struct {
				alloc   *gpuslots.Allocation
				started time.Time
			}
			running := map[string]run{}
			waiting, finished := jobs, 0
			for finished < jobs {
				for waiting > 0 {
					name := fmt.Sprint(waiting)
					a, err := b.try(name, req)
					if err != nil {
						break
					}
					running[name] = run{a, b.clock()}
					waiting--
				}
				if len(running) == 0 {
					t.Fatalf("%d jobs wait and nothing runs", waiting)
				}
				procs := map[int][]telemetry.Process{}
				for name, r := range running {
					age := b.clock().Sub(r.started)
					if age > 2*time.Minute {
						if err := r.alloc.Release(); err != nil {
							t.Fatal(err)
						}
						delete(running, name)
						finished++
						continue
					}
					p := ours(name, 100) // a context, long before the model
					if age > 45*time.Second {
						p = ours(name, 2000)
					}
					procs[index(r.alloc)] = append(procs[index(r.alloc)], p)
				}
				for card := range 2 {
					b.processes(card, 0, procs[card]...)
					if used := *b.cards[card].MemoryUsedMB; used > total {
						t.Fatalf("GPU %d is overfilled: %d MB of %d", card, used, total)
					}
				}
				b.look(10 * time.Second)
			}
		})
	}
}

// After the warm-up a run that promised nothing counts for what it uses.
func TestWarmup(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 2})
	b.get("1", shared(0))
	b.refused(gpuslots.Memory, shared(20000))
	at, ok := b.pool.NextChange(b.clock())
	if !ok || !at.Equal(noon.Add(gpuslots.DefaultWarmup)) {
		t.Errorf("the warm-up ends at %v, %v", at, ok)
	}
	b.processes(0, 0, ours("1", 3000))
	b.look(59 * time.Second)
	b.refused(gpuslots.Memory, shared(20000))
	b.look(time.Second)
	b.get("2", shared(20000))
}

// A driver that names no processes (a container without the host's PIDs) must not make our runs count twice, nor
// hide the others.
func TestProcessesNotKnown(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 4, Foreign: gpuslots.ForeignIgnore})
	see := func(usedMB int64) int64 {
		b.processes(0, usedMB)
		b.cards[0].ProcessesKnown = false
		b.look(time.Second)
		return b.pool.Status(b.clock()).GPUs[0].AvailableMB
	}
	if got := see(4000); got != 20576 {
		t.Errorf("empty: %d", got)
	}
	b.get("1", shared(10000))
	if got := see(4000); got != 10576 {
		t.Errorf("promised, not used yet: %d", got)
	}
	if got := see(14000); got != 10576 {
		t.Errorf("promised and used: %d", got)
	}
	if got := see(16000); got != 8576 {
		t.Errorf("more than promised: %d", got)
	}
}

// What a run used stays used until a reading shows it free.
func TestReleaseWaitsForAReading(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	a := b.get("1", alone(0))
	b.processes(0, 0, ours("1", 20000))
	b.look(time.Second)
	if b.pool.Stale(b.clock()) {
		t.Error("a reading of this moment is not stale")
	}
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	if !b.pool.Stale(b.clock()) {
		t.Error("after a release every reading is stale")
	}
	b.refused(gpuslots.Resources, alone(0))

	b.look(time.Second) // its process is still there
	b.refused(gpuslots.Resources, alone(0))
	if got := b.state(0); got != gpuslots.StateDirty {
		t.Errorf("state %s, want dirty", got)
	}

	b.processes(0, 20000) // the process has gone, its memory is on the way
	b.look(time.Second)
	if got := b.state(0); got != gpuslots.StateSettling {
		t.Errorf("state %s, want settling", got)
	}
	b.processes(0, 0)
	b.cards[0].UtilizationPercent = ptr(90.0) // the gauge trails
	b.look(time.Second)
	b.get("2", alone(20000))
}

func TestStale(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	if b.pool.Stale(b.clock().Add(time.Second)) || !b.pool.Stale(b.clock().Add(time.Second+1)) {
		t.Error("a reading is good for one second")
	}
	fresh, err := gpuslots.New(gpuslots.Options{Devices: devices(1, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	if !fresh.Stale(noon) {
		t.Error("a pool that has seen nothing is stale")
	}
	if _, err := fresh.TryAcquire(gpuslots.Request{Holder: "1", Req: alone(0), Now: noon}); err == nil {
		t.Error("a pool that has seen nothing grants no GPU")
	}
	if _, err := fresh.TryAcquire(gpuslots.Request{Holder: "1", Now: noon}); err != nil {
		t.Errorf("a job without a GPU needs no reading: %v", err)
	}
}
