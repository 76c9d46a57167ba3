package worker

import (
	"context"
	"errors"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// adopt goes on with the runs that a predecessor on this store left to their shims, before any new job is taken: their
// GPUs are in use. It returns how many there are.
func (w *Worker) adopt(ctx context.Context) (int, error) {
	handles, lost, err := w.runner.Adopt(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range lost {
		w.handOn(ctx, l)
	}
	adopted := 0
	for _, h := range handles {
		if w.adoptRun(ctx, h) {
			adopted++
		}
	}
	return adopted, nil
}

// handOn settles a run of which nothing is left and nobody knows how it ended: its job is queued again at once,
// instead of after claim_ttl.
func (w *Worker) handOn(ctx context.Context, l runner.Lost) {
	if l.Newer {
		w.log.Error("run_left_alone", "run", l.ID, "why", l.Why)
		return
	}
	w.log.Warn("run_lost", "run", l.ID, "why", l.Why)
	n, err := decodeNote(l.Note)
	if err == nil {
		var claim *queue.Claim
		if claim, err = w.cfg.Queue.Resume(ctx, w.session(), n.Claim); err == nil {
			err = handOnJob(ctx, claim, l.Why)
		}
	}
	if err != nil {
		w.log.Warn("run_not_handed_on", "run", l.ID, "err", err) // the end of the old session does it
	}
	if err := l.Remove(); err != nil {
		w.log.Warn("run_folder_kept", "run", l.ID, "err", err)
	}
}

// handOnJob queues the job again; a lease that was given is not given again.
func handOnJob(ctx context.Context, claim *queue.Claim, why string) error {
	if l := claim.Record().Lease; l != nil && l.HeldAt != nil {
		return claim.Finish(ctx, job.Result{Outcome: job.OutcomeMachineLost, State: job.Failed, Reason: why})
	}
	return claim.Requeue(ctx, job.Attempt{Outcome: job.OutcomeMachineLost, Reason: why}, queue.Requeue{Why: why})
}

// adoptRun takes up one run: its claim under the new session, its place in the books. What cannot be taken up is
// stopped: somebody else may have the job by now.
func (w *Worker) adoptRun(ctx context.Context, h *runner.Handle) bool {
	n, err := decodeNote(h.Note())
	if errors.Is(err, errNewerNote) {
		w.log.Error("run_left_alone", "run", h.ID(), "why", err)
		h.Detach()
		return false
	}
	if err != nil {
		w.log.Error("run_not_adopted", "run", h.ID(), "err", err)
		w.discard(h)
		return false
	}
	claim, err := w.cfg.Queue.Resume(ctx, w.session(), n.Claim)
	if err != nil {
		if !errors.Is(err, queue.ErrClaimLost) && ctx.Err() != nil {
			h.Detach() // we are ending ourselves; the next worker tries again
			return false
		}
		w.log.Warn("run_not_adopted", "run", h.ID(), "err", err)
		w.discard(h)
		return false
	}
	alloc, err := w.pool.Restore(n.Given)
	if errors.Is(err, gpuslots.ErrUnknownGPU) {
		w.log.Warn("adopted_run_without_gpu", "run", h.ID(), "err", err) // its card is gone from the machine
		n.Given.UUIDs, n.Given.Requirements.GPUs = nil, 0
		alloc, err = w.pool.Restore(n.Given)
	}
	if err != nil {
		w.log.Error("run_not_adopted", "run", h.ID(), "err", err)
		w.discard(h)
		return false
	}
	a := &attempt{
		id: h.ID(), project: claim.Job.Project, claim: claim, alloc: alloc, handle: h, measured: n.Measured, fault: n.Evidence,
		log:    w.log.With("job", claim.Ref().String(), "attempt", claim.Attempt()),
		faults: make(chan telemetry.Fault, 8), steps: stepBooks{seen: n.Steps},
	}
	if err := h.Extend(w.session().Deadline()); err != nil {
		a.log.Debug("not_extended", "err", err) // it has ended, or its shim has: watch finds out
	}
	a.remember()
	a.log.Info("run_adopted", "gpus", keys(alloc.Devices))
	w.attempts.Go(func() { w.see(a) })
	return true
}

// discard stops a run that is nobody's and forgets it.
func (w *Worker) discard(h *runner.Handle) {
	w.attempts.Go(func() {
		if err := h.Stop(runner.SessionLost, "the claim on the job is lost"); err != nil {
			w.log.Debug("stop_failed", "run", h.ID(), "err", err) // it has ended already
		}
		if _, err := h.Wait(w.background); err != nil {
			h.Detach()
			return
		}
		if err := h.Release(); err != nil {
			w.log.Warn("run_folder_kept", "run", h.ID(), "err", err)
		}
	})
}
