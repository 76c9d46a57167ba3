package day

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// board is what the queue has told so far, for scenes that wait until something has happened.
type board struct {
	mu       sync.Mutex
	records  map[queue.Ref]entry
	machines map[string]queue.Machine
	changed  chan struct{} // closed by the next change
}

// entry is what the day wants to know of a job.
type entry struct {
	state    job.State
	machine  string
	devices  []string
	attempts int
}

func newBoard() *board {
	return &board{records: map[queue.Ref]entry{}, machines: map[string]queue.Machine{}, changed: make(chan struct{})}
}

// follow keeps the board until ctx ends.
func (b *board) follow(ctx context.Context, q *queue.Queue) error {
	return q.Follow(ctx, queue.Changes{
		Job:     func(queue.JobView) {},
		Record:  b.record,
		Event:   func(queue.Event) {},
		Point:   func(json.RawMessage) {},
		Machine: func(m queue.Machine) { b.change(func() { b.machines[m.Name] = m }) },
		Gone:    func(string) {},
		Caught:  func(string) {},
		From:    q.Options().Now(),
	})
}

func (b *board) record(ref queue.Ref, r *job.Record) {
	b.change(func() {
		if r == nil {
			delete(b.records, ref)
			return
		}
		b.records[ref] = entry{r.State, r.Machine, r.Devices, len(r.Attempts)}
	})
}

func (b *board) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
	close(b.changed)
	b.changed = make(chan struct{})
}

// await waits until so says true; it is called with the board held still.
func (b *board) await(ctx context.Context, so func() bool) error {
	for {
		b.mu.Lock()
		met, changed := so(), b.changed
		b.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// running waits until a job runs, after at least so many attempts that have ended, and says where. A job that ends
// instead is nowhere.
func (b *board) running(ctx context.Context, ref queue.Ref, attempt int) (e entry, err error) {
	err = b.await(ctx, func() bool {
		e = b.records[ref]
		return e.state.Final() || e.state == job.Running && e.attempts >= attempt
	})
	return e, err
}

// ended waits for the end of a job.
func (b *board) ended(ctx context.Context, ref queue.Ref) (e entry, err error) {
	err = b.await(ctx, func() bool {
		e = b.records[ref]
		return e.state.Final()
	})
	return e, err
}

// card finds a GPU of a machine.
func (b *board) card(machine, uuid string) (queue.GPU, bool) {
	for _, g := range b.machines[machine].GPUs {
		if g.UUID == uuid {
			return g, true
		}
	}
	return queue.GPU{}, false
}

// indexIs reports whether a machine's GPU has that state. As in card, the caller holds the board still.
func (b *board) indexIs(machine string, index int, state string) bool {
	for _, g := range b.machines[machine].GPUs {
		if g.Index == index {
			return g.State == state
		}
	}
	return false
}

// cardIs waits until a GPU has, or has no more, that state.
func (b *board) cardIs(ctx context.Context, machine, uuid, state string, yes bool) error {
	return b.await(ctx, func() bool {
		g, known := b.card(machine, uuid)
		return known && (g.State == state) == yes
	})
}
