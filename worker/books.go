package worker

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berthq/berth/telemetry"
)

// runBooks are the attempts this worker answers for, by run id.
type runBooks struct {
	mu     sync.Mutex
	runs   map[string]*attempt
	owners map[int]string // process -> the run it was last found in
}

func (b *runBooks) add(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs == nil {
		b.runs = map[string]*attempt{}
	}
	b.runs[a.id] = a
}

func (b *runBooks) remove(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.runs, a.id)
	maps.DeleteFunc(b.owners, func(_ int, run string) bool { return run == a.id })
}

// each calls see for every run, outside the lock.
func (b *runBooks) each(see func(*attempt)) {
	for _, a := range b.all() {
		see(a)
	}
}

func (b *runBooks) all() []*attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.runs))
}

// owner is the run a process belongs to; "" for none. The one it belonged to when it was last asked about is looked at
// first: to ask each of many runs about each of their processes would take longer than a reading may.
func (b *runBooks) owner(pid int) (run string) {
	b.mu.Lock()
	last := b.runs[b.owners[pid]]
	b.mu.Unlock()
	if last != nil && last.has(pid) {
		return last.id
	}
	all := b.all()
	i := slices.IndexFunc(all, func(a *attempt) bool { return a != last && a.has(pid) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if i < 0 {
		delete(b.owners, pid)
		return ""
	}
	if b.owners == nil {
		b.owners = map[int]string{}
	}
	if b.runs[all[i].id] == all[i] { // else it has just been removed, and nobody would remove this
		b.owners[pid] = all[i].id
	}
	return all[i].id
}

// dirtBooks are the slots on which something of an ended run was left.
type dirtBooks struct {
	mu   sync.Mutex
	left map[dirt]map[int]bool // the processes
}

type dirt struct{ uuid, run string }

func (b *dirtBooks) add(uuid, run string, pids []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == nil {
		b.left = map[dirt]map[int]bool{}
	}
	set := map[int]bool{}
	for _, pid := range pids {
		set[pid] = true
	}
	b.left[dirt{uuid, run}] = set
}

func (b *dirtBooks) remove(d dirt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.left, d)
}

// all are the dirty slots with the processes that were left.
func (b *dirtBooks) all() map[dirt][]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make(map[dirt][]int, len(b.left))
	for d, pids := range b.left {
		list[d] = slices.Collect(maps.Keys(pids))
	}
	return list
}

// owner is the ended run that left the process behind.
func (b *dirtBooks) owner(pid int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, pids := range b.left {
		if pids[pid] {
			return d.run
		}
	}
	return ""
}

// sickBooks are the GPUs out of service: those that a fault took out, tested until they may come back, and those that
// an operator took out, which only an operator brings back.
type sickBooks struct {
	mu     sync.Mutex
	since  map[string]time.Time // of the last fault
	faults map[string]telemetry.Fault
	orders map[string]string // an operator's, and why
}

// add notes a fault. False: an operator keeps the GPU out anyway, and his reason stands.
func (b *sickBooks) add(uuid string, f telemetry.Fault, at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ordered := b.orders[uuid]; ordered {
		return false
	}
	if b.since == nil {
		b.since = map[string]time.Time{}
	}
	b.since[uuid] = at
	if b.faults == nil {
		b.faults = map[string]telemetry.Fault{}
	}
	b.faults[uuid] = f
	return true
}

// faultOf is the fault that keeps a GPU out of service now.
func (b *sickBooks) faultOf(uuid string) (telemetry.Fault, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, faulty := b.since[uuid]
	return b.faults[uuid], faulty
}

// recover takes a GPU off the list of the faulty. False: it is on it no more, an operator has taken it over.
func (b *sickBooks) recover(uuid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, faulty := b.since[uuid]
	delete(b.since, uuid)
	return faulty
}

// order is an operator's quarantine; keep stores all of them.
func (b *sickBooks) order(uuid, why string, keep func(map[string]string) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	after := maps.Clone(b.orders)
	if after == nil {
		after = map[string]string{}
	}
	after[uuid] = why
	if err := keep(after); err != nil {
		return err
	}
	b.orders = after
	delete(b.since, uuid)
	return nil
}

// lift ends a quarantine, whoever ordered it. False: there was none.
func (b *sickBooks) lift(uuid string, keep func(map[string]string) error) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, faulty := b.since[uuid]
	_, ordered := b.orders[uuid]
	if ordered {
		after := maps.Clone(b.orders)
		delete(after, uuid)
		if err := keep(after); err != nil {
			return true, err
		}
		b.orders = after
	}
	delete(b.since, uuid)
	return faulty || ordered, nil
}

// hasten makes a faulty GPU due for its test. False: no fault keeps it out.
func (b *sickBooks) hasten(uuid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, faulty := b.since[uuid]
	if faulty {
		b.since[uuid] = time.Time{}
	}
	return faulty
}

func (b *sickBooks) resume(orders map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders = orders
}

// due are the GPUs that have been quiet for as long as that.
func (b *sickBooks) due(now time.Time, quiet time.Duration) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for uuid, at := range b.since {
		if now.Sub(at) >= quiet {
			list = append(list, uuid)
		}
	}
	return list
}
