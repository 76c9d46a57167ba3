package gpuslots_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

// model is the pool as a child would build it: every card is looked at from scratch each time.
type model struct {
	slots   int
	totalMB int64
	foreign []int64
	closed  []bool
	runs    map[string]modelRun
}

type modelRun struct {
	req   job.Requirements
	cards []int
	alloc *gpuslots.Allocation
}

// fits is what a card has room for, by the rules of the package comment and nothing else.
func (m *model) fits(card int, req job.Requirements) bool {
	if m.closed[card] {
		return false
	}
	slots, free := 0, m.totalMB-m.foreign[card]
	for _, r := range m.runs {
		if !slices.Contains(r.cards, card) {
			continue
		}
		if !r.req.IsShared() || !req.IsShared() {
			return false
		}
		slots += r.req.Slots
		free -= r.req.GPUMemoryMB
	}
	if req.IsShared() && slots+req.Slots > m.slots {
		return false
	}
	return req.GPUMemoryMB <= max(free, 0)
}

// Whatever happens, the pool grants exactly when the model has room, and only cards the model has room on.
func TestPoolAgreesWithModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1842))
			placements := []gpuslots.Placement{gpuslots.PlaceScore, gpuslots.PlacePack, gpuslots.PlaceSpread, gpuslots.PlaceBestFit}
			const cards, slots = 5, 4
			b := newBox(t, cards, gpuslots.Options{
				SlotsPerGPU: slots, Foreign: gpuslots.ForeignIgnore, Placement: placements[seed%4], LockDir: t.TempDir(),
			})
			m := &model{slots: slots, totalMB: 24576, foreign: make([]int64, cards), closed: make([]bool, cards), runs: map[string]modelRun{}}
			for step := range 400 {
				switch rng.IntN(5) {
				case 0, 1:
					m.acquire(t, b, rng, fmt.Sprint("run", step))
				case 2:
					m.release(t, b, rng)
				case 3:
					card := rng.IntN(cards)
					m.foreign[card] = rng.Int64N(20000)
				case 4:
					card := rng.IntN(cards)
					m.closed[card] = !m.closed[card]
					if m.closed[card] {
						_ = b.pool.Quarantine(uuid(card), "chance")
					} else {
						_ = b.pool.Unquarantine(uuid(card))
					}
				}
				m.observe(b)
			}
			for name := range m.runs {
				if err := b.pool.Release(name); err != nil {
					t.Error(err)
				}
			}
			if s := b.pool.Stats(); s.TotalActive != 0 {
				t.Errorf("all is released, yet %+v", s)
			}
		})
	}
}

func (m *model) observe(b *box) {
	for card := range b.cards {
		procs := []telemetry.Process{theirs(7, m.foreign[card])}
		for name, r := range m.runs {
			if slices.Contains(r.cards, card) { // never more than promised, so the promise is what counts
				procs = append(procs, ours(name, r.req.GPUMemoryMB/2))
			}
		}
		b.processes(card, 0, procs...)
	}
	b.look(time.Second)
}

func (m *model) acquire(t *testing.T, b *box, rng *rand.Rand, name string) {
	t.Helper()
	req := job.Requirements{GPUs: 1 + rng.IntN(3), GPUMemoryMB: 1 + rng.Int64N(12000)}
	if rng.IntN(3) > 0 {
		req.Share, req.Slots = job.Shared, 1+rng.IntN(2)
	}
	room := 0
	for card := range m.foreign {
		if m.fits(card, req) {
			room++
		}
	}
	_, roomErr := b.pool.Room(req, b.clock())
	alloc, err := b.try(name, req)
	if (err == nil) != (room >= req.GPUs) || (roomErr == nil) != (err == nil) {
		t.Fatalf("%+v: %d cards have room; the pool says %v, its room %v", req, room, err, roomErr)
	}
	if err != nil {
		return
	}
	run := modelRun{req: req, alloc: alloc}
	for _, d := range alloc.Devices {
		if !m.fits(d.Index, req) || slices.Contains(run.cards, d.Index) {
			t.Fatalf("%+v: GPU %d has no room", req, d.Index)
		}
		run.cards = append(run.cards, d.Index)
	}
	m.runs[name] = run
}

func (m *model) release(t *testing.T, b *box, rng *rand.Rand) {
	t.Helper()
	for name, r := range m.runs { // any one
		if rng.IntN(2) == 0 {
			continue
		}
		delete(m.runs, name)
		if err := r.alloc.Release(); err != nil {
			t.Fatal(err)
		}
		if err := r.alloc.Release(); !errors.Is(err, gpuslots.ErrNotHeld) {
			t.Fatalf("twice: %v", err)
		}
		return
	}
}

// Thousands of grants and releases at once: no card ever holds more than it has.
func TestNeverOversold(t *testing.T) {
	t.Parallel()
	const cards, slots, workers, rounds = 4, 3, 16, 250
	b := newBox(t, cards, gpuslots.Options{SlotsPerGPU: slots, CPUs: 6, CPUJobs: 6, MemoryMB: 6000})
	var taken [cards]atomic.Int64 // slots; an exclusive run takes all
	var memory [cards]atomic.Int64
	var cpus, hostMB, granted atomic.Int64
	reqs := []job.Requirements{
		{GPUs: 1, GPUMemoryMB: 20000, CPUs: 1, MemoryMB: 1000},
		{GPUs: 1, GPUMemoryMB: 9000, Share: job.Shared, CPUs: 1},
		{GPUs: 2, GPUMemoryMB: 9000, Share: job.Shared, Slots: 2, CPUs: 2},
		{GPUs: 3, GPUMemoryMB: 1000, CPUs: 1},
		{CPUs: 2, MemoryMB: 2000},
	}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for round := range rounds {
				req := reqs[(worker+round)%len(reqs)]
				if req.GPUs > 0 && b.pool.Stale(b.clock()) {
					b.look(0)
				}
				a, err := b.try(fmt.Sprint(worker, ".", round), req)
				if err != nil {
					if _, refused := gpuslots.AsRefusal(err); !refused {
						t.Error(err)
					}
					continue
				}
				granted.Add(1)
				width := int64(slots)
				if req.IsShared() {
					width = int64(max(1, req.Slots))
				}
				for _, d := range a.Devices {
					if n := taken[d.Index].Add(width); n > slots {
						t.Errorf("GPU %d: %d of %d slots", d.Index, n, slots)
					}
					if mb := memory[d.Index].Add(req.GPUMemoryMB); mb > 24576 {
						t.Errorf("GPU %d: %d MB promised", d.Index, mb)
					}
				}
				if cpus.Add(int64(req.CPUs)) > 6 || hostMB.Add(req.MemoryMB) > 6000 {
					t.Errorf("the host is oversold: %d CPUs, %d MB", cpus.Load(), hostMB.Load())
				}
				for _, d := range a.Devices {
					taken[d.Index].Add(-width)
					memory[d.Index].Add(-req.GPUMemoryMB)
				}
				cpus.Add(-int64(req.CPUs))
				hostMB.Add(-req.MemoryMB)
				if err := a.Release(); err != nil {
					t.Error(err)
				}
				b.pool.Status(b.clock())
			}
		})
	}
	wg.Wait()
	if granted.Load() < rounds/10 {
		t.Errorf("only %d grants", granted.Load())
	}
	if s := b.pool.Stats(); s.TotalActive != 0 {
		t.Errorf("all is released, yet %+v", s)
	}
}
