package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

// observe shows every new reading to the pool until ctx ends.
func (w *Worker) observe(ctx context.Context) {
	for {
		changed := w.sampler.Changed()
		if snap, ok := w.sampler.Latest(); ok {
			w.pool.Observe(snap, w.cfg.Now())
			w.noteSeen(snap)
			w.cleanUp(snap)
			w.warnStrays()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// guard takes failing GPUs out of service, ends the runs on them and tests the GPU until it may come back.
func (w *Worker) guard(ctx context.Context) {
	probe := time.NewTicker(max(w.cfg.RestoreAfter/4, 100*time.Millisecond))
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-w.sampler.Faults():
			w.onFault(f)
		case <-probe.C:
			w.tryRestore(ctx)
		case <-w.probeNow:
			w.tryRestore(ctx)
		}
	}
}

func (w *Worker) onFault(f telemetry.Fault) {
	if !f.Fatal {
		w.log.Info("gpu_application_fault", "gpu", f.UUID, "fault", f.String())
		return
	}
	if f.Kind == telemetry.FaultUnreadable {
		w.log.Warn("gpu_unreadable", "gpu", f.UUID, "fault", f.String()) // no new work until it answers; what runs goes on
		return
	}
	for _, d := range w.devices {
		if f.UUID != "" && f.UUID != d.UUID {
			continue
		}
		kept := w.sick.add(d.UUID, f, w.cfg.Now()) // before the runs are told: one that is just starting looks here
		w.endRunsOn(d.UUID, f)
		if !kept {
			continue // an operator has it out of service already, and alone brings it back
		}
		if err := w.pool.Quarantine(d.UUID, f.String()); err != nil {
			w.log.Error("quarantine_failed", "gpu", d.UUID, "err", err)
			continue
		}
		w.log.Error("gpu_quarantined", "gpu", d.UUID, "index", d.Index, "fault", f.String())
		w.noteHealth(d, "quarantine", f.String())
	}
}

// noteHealth writes the event log: who (this worker) did what to which GPU, and why.
func (w *Worker) noteHealth(d telemetry.Device, kind, text string) {
	w.healthChanged()
	ctx, cancel := context.WithTimeout(w.background, 10*time.Second)
	defer cancel()
	err := w.cfg.Queue.Note(ctx, queue.Event{
		Kind: kind, By: "worker", Machine: w.cfg.Machine, Text: text, Facts: map[string]string{"gpu": d.UUID, "index": d.Key()},
	})
	if err != nil {
		w.log.Warn("event_not_stored", "kind", kind, "gpu", d.UUID, "err", err)
	}
}

func (w *Worker) endRunsOn(uuid string, f telemetry.Fault) {
	w.runs.each(func(a *attempt) {
		for _, d := range a.devices() {
			if d.UUID != uuid {
				continue
			}
			select {
			case a.faults <- f:
			default: // it is being ended for an earlier one
			}
		}
	})
}

// tryRestore brings back what has been quiet for a while and reads healthy.
func (w *Worker) tryRestore(ctx context.Context) {
	due := w.sick.due(w.cfg.Now(), w.cfg.RestoreAfter)
	if len(due) == 0 {
		return
	}
	snap, err := w.sampler.Refresh(ctx)
	if err != nil {
		return
	}
	for _, uuid := range due {
		if why := unfit(snap, uuid); why != "" {
			w.log.Debug("gpu_still_sick", "gpu", uuid, "why", why)
			continue
		}
		if !w.sick.recover(uuid) {
			continue
		}
		if err := w.pool.Unquarantine(uuid); err != nil {
			w.log.Error("restore_failed", "gpu", uuid, "err", err)
			continue
		}
		w.log.Info("gpu_restored", "gpu", uuid)
		for _, d := range w.devices {
			if d.UUID == uuid {
				w.noteHealth(d, "restore", "it reads healthy again")
			}
		}
	}
}

// unfit says why a GPU may not come back; "" when it may.
func unfit(snap telemetry.Snapshot, uuid string) string {
	r, ok := snap.Reading(uuid)
	switch {
	case snap.Health != telemetry.HealthOK:
		return "the GPU source is " + string(snap.Health)
	case !ok:
		return "it is not listed"
	case r.Fault != nil && r.Fault.Fatal:
		return r.Fault.Text
	case r.Err != "":
		return r.Err
	case r.RecoveryAction != nil && *r.RecoveryAction != 0:
		return fmt.Sprintf("the driver asks for recovery action %d", *r.RecoveryAction)
	case r.RemapFailed:
		return "row remapping failed"
	}
	return ""
}

// afterwards is what an outcome means for the devices.
func (w *Worker) afterwards(a *attempt, v Verdict) {
	if v.Outcome != job.OutcomeOOMGPU {
		return
	}
	for _, d := range a.devices() {
		if err := w.pool.Shrink(d.UUID, w.cfg.Now().Add(w.cfg.ShrinkFor)); err != nil {
			a.log.Warn("not_shrunk", "gpu", d.UUID, "err", err)
		}
	}
}

func (w *Worker) largestCardMB() int64 {
	var most int64
	for _, d := range w.devices {
		most = max(most, d.MemoryTotalMB)
	}
	return most
}
