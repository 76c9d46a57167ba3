package worker

import (
	"cmp"
	"context"
	"time"

	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
)

// control answers control requests until ctx ends: about any job, as one of all workers, and about this machine.
func (w *Worker) control(ctx context.Context) {
	err := w.cfg.Queue.ServeControl(ctx, queue.MachineControl{
		Machine: w.cfg.Machine,
		Drain: func(by, reason string, patience time.Duration) {
			w.log.Info("drain_asked", "by", by, "reason", reason, "patience", patience)
			w.setDraining(true)
			w.endDrainAfter(cmp.Or(patience, w.cfg.DrainFor))
		},
		Undrain: func(by string) {
			w.log.Info("undrain_asked", "by", by)
			w.endDrainAfter(0)
			w.setDraining(false)
		},
		Quarantine: w.quarantineGPU,
		Restore:    w.restoreGPU,
		Probe:      w.probeGPU,
	})
	if err != nil && ctx.Err() == nil {
		w.log.Error("control_ended", "err", err)
	}
}

// setDraining starts or ends taking no more; what runs goes on.
func (w *Worker) setDraining(on bool) {
	w.draining.Store(on)
	w.pool.Drain(on)
	w.tell()
}

// endDrainAfter stops what still runs after so long a drain; 0 lets it take as long as it takes. The last word counts.
func (w *Worker) endDrainAfter(patience time.Duration) {
	w.drainMu.Lock()
	defer w.drainMu.Unlock()
	if w.drainEnd != nil {
		w.drainEnd.Stop()
		w.drainEnd = nil
	}
	if patience > 0 {
		w.drainEnd = time.AfterFunc(patience, func() {
			w.runs.each(func(a *attempt) { a.stop(runner.Drained, "the machine is drained, and "+patience.String()+" are over") })
		})
	}
}
