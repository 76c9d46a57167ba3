package worker

import (
	"fmt"
	"slices"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// vacate looks at the GPUs a run has left: where a process of it would not die, or the driver still lists one, or
// nobody can say because the driver does not answer, the slot is dirty and not given again until a reading shows the GPU
// free of it. A fresh reading shows the pool what the run has freed.
func (w *Worker) vacate(a *attempt, exit runner.Exit) {
	if len(a.devices()) == 0 {
		return
	}
	before, _ := w.sampler.Latest()
	if answers(before) {
		a.noteSeen(before)
	}
	snap, err := w.sampler.Refresh(w.background)
	for _, d := range a.devices() {
		left, why := leftBehind(a, d.UUID, exit, snap, err)
		if why == "" {
			continue
		}
		a.log.Warn("gpu_dirty", "gpu", d.UUID, "why", why)
		if len(left) > 0 {
			a.warn("GPU %s: %s", d.Key(), why)
		}
		if err := w.pool.MarkDirty(d.UUID, a.id, why); err != nil {
			a.log.Error("not_marked_dirty", "gpu", d.UUID, "err", err)
			continue
		}
		w.dirt.add(d.UUID, a.id, left)
	}
	if err == nil { // without one, the pool asks for it before it grants
		w.pool.Observe(snap, w.cfg.Now())
	}
}

// leftBehind are the processes of an ended run that hold or may hold a GPU, and the words for it; no words: it is clean.
func leftBehind(a *attempt, uuid string, exit runner.Exit, snap telemetry.Snapshot, err error) (left []int, why string) {
	seen := a.seenOn(uuid)
	r, listed := snap.Reading(uuid)
	switch {
	case len(exit.Survivors) > 0:
		return exit.Survivors, fmt.Sprintf("process %d of run %s does not die", exit.Survivors[0], a.id)
	case err != nil:
		return seen, fmt.Sprintf("whether run %s has left it is not known: %v", a.id, err)
	case !answers(snap):
		return seen, fmt.Sprintf("whether run %s has left it is not known: %s", a.id, snap.Err)
	case !listed || r.Err != "" && !r.ProcessesKnown:
		return seen, fmt.Sprintf("whether run %s has left it is not known: it cannot be read", a.id)
	}
	if left = stillListed(r, seen); len(left) > 0 {
		return left, fmt.Sprintf("process %d of run %s still holds memory on it", left[0], a.id)
	}
	return nil, ""
}

// stillListed are those of the processes that a GPU still lists.
func stillListed(r telemetry.Reading, pids []int) []int {
	var left []int
	for _, p := range r.Processes {
		if slices.Contains(pids, p.PID) {
			left = append(left, p.PID)
		}
	}
	return left
}

// cleanUp gives dirty slots back once a reading shows nothing of the run on the GPU any more.
func (w *Worker) cleanUp(snap telemetry.Snapshot) {
	if !answers(snap) {
		return
	}
	for d, pids := range w.dirt.all() {
		r, ok := snap.Reading(d.uuid)
		known := r.ProcessesKnown || len(pids) == 0 && r.Err == "" // a driver that lists no processes never will
		if !ok || !known || len(stillListed(r, pids)) > 0 {
			continue
		}
		if err := w.pool.Clean(d.uuid, d.run); err != nil {
			w.log.Error("not_cleaned", "gpu", d.uuid, "run", d.run, "err", err)
		} else {
			w.log.Info("gpu_clean", "gpu", d.uuid, "run", d.run)
		}
		w.dirt.remove(d)
	}
}

// noteSeen remembers which processes of each run are on its GPUs: when it ends, its control group is empty, and the
// driver may be silent.
func (w *Worker) noteSeen(snap telemetry.Snapshot) {
	if !answers(snap) {
		return
	}
	w.runs.each(func(a *attempt) { a.noteSeen(snap) })
}

func (a *attempt) noteSeen(snap telemetry.Snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string][]int{}
	}
	for _, d := range a.devices() {
		if r, ok := snap.Reading(d.UUID); ok && r.ProcessesKnown {
			a.seen[d.UUID] = stillHolding(r, a.id, a.seen[d.UUID])
		}
	}
}

func (a *attempt) seenOn(uuid string) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen[uuid])
}

// stillHolding lists the processes of a run that are on a GPU: those in its control group, and those that were and have
// died, which is not to say that the driver has let go of what they held.
func stillHolding(r telemetry.Reading, run string, before []int) []int {
	var pids []int
	for _, p := range r.Processes {
		if p.Run == run || slices.Contains(before, p.PID) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// answers reports whether a snapshot is the driver's word, not its silence.
func answers(snap telemetry.Snapshot) bool {
	return snap.Health == "" || snap.Health == telemetry.HealthOK
}
