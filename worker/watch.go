package worker

import (
	"context"
	"time"

	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// rememberEvery is how often what was measured is written beside the run: what a crash of the worker may cost.
const rememberEvery = time.Minute

// watch waits for the end of a run and passes on every wish that it should end. False: the worker has detached from it.
func (w *Worker) watch(a *attempt) (runner.Exit, bool) {
	lost := w.hold(a)
	defer lost.stop()
	renewed := time.NewTicker(w.extendEvery())
	defer renewed.Stop()
	remember := time.NewTicker(rememberEvery)
	defer remember.Stop()
	charts := time.NewTicker(seriesEvery)
	defer charts.Stop()
	control, stopRuns, gone := a.claim.Control(), w.stopRuns.Done(), lost.err
	for {
		select {
		case <-a.handle.Done():
			exit, err := a.handle.Wait(w.background)
			if err != nil {
				a.log.Error("exit_not_read", "err", err)
				exit.Cause = runner.ShimLost
			}
			return exit, true
		case event := <-control:
			w.obey(a, event)
		case err := <-gone:
			gone = nil
			a.log.Warn("claim_lost", "err", err)
			a.stop(runner.SessionLost, "the claim on the job is lost")
		case f := <-a.faults:
			a.blame(f)
			a.stop(CauseGPUFault, f.String())
		case <-stopRuns:
			stopRuns = nil
			a.stop(runner.Drained, "the machine is drained")
		case <-w.detached:
			a.remember()
			a.handle.Detach()
			return runner.Exit{}, false
		case <-renewed.C:
			if err := a.handle.Extend(w.session().Deadline()); err != nil {
				a.log.Debug("not_extended", "err", err) // the shim ends the run at the deadline it knows
			}
		case <-remember.C:
			a.remember()
		case <-charts.C:
			w.publishSeries(a)
		}
	}
}

// extendEvery is how often the shim hears that the session was confirmed: often enough that a few lost words do not matter.
func (w *Worker) extendEvery() time.Duration {
	return max(w.cfg.Queue.Options().ClaimTTL/20, 100*time.Millisecond)
}

func (w *Worker) obey(a *attempt, event queue.ControlEvent) {
	switch event.Kind {
	case queue.ControlCancel:
		a.log.Info("run_cancelled", "by", event.By)
		a.stop(runner.Cancelled, "cancelled by "+event.By)
	case queue.ControlLimit:
		a.log.Info("time_limit_changed", "limit", event.Limit)
		if err := a.handle.SetTimeLimit(event.Limit); err != nil {
			a.log.Warn("time_limit_not_changed", "limit", event.Limit, "err", err)
		}
	case queue.ControlRelease, queue.ControlExtend:
		w.obeyLease(a, event)
	default:
		a.log.Warn("unknown_control", "kind", event.Kind)
	}
}

func (a *attempt) stop(cause runner.Cause, why string) {
	if err := a.handle.Stop(cause, why); err != nil {
		a.log.Warn("stop_failed", "cause", cause, "err", err)
	}
}

// blame remembers the fault that ended the run.
func (a *attempt) blame(f telemetry.Fault) {
	a.mu.Lock()
	if a.fault == "" {
		a.fault = f.String()
	}
	a.mu.Unlock()
	a.remember()
}

// holding is the goroutine that keeps the claim.
type holding struct {
	err  <-chan error
	stop func()
}

// hold keeps the claim beside the run; err gets the reason when it is lost.
func (w *Worker) hold(a *attempt) holding {
	ctx, cancel := context.WithCancel(w.background)
	err, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		if e := a.claim.Hold(ctx); e != nil {
			err <- e
		}
	}()
	return holding{err: err, stop: func() { cancel(); <-done }}
}
