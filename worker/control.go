package worker

import (
	"context"

	"github.com/berthq/berth/queue"
)

// control answers control requests until ctx ends: about any job, as one of all workers, and about this machine.
func (w *Worker) control(ctx context.Context) {
	err := w.cfg.Queue.ServeControl(ctx, queue.MachineControl{
		Machine: w.cfg.Machine,
		Drain: func(by, reason string) {
			w.log.Info("drain_asked", "by", by, "reason", reason)
			w.setDraining(true)
		},
		Undrain: func(by string) {
			w.log.Info("undrain_asked", "by", by)
			w.setDraining(false)
		},
		Quarantine: w.quarantineGPU,
		Restore:    w.restoreGPU,
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
