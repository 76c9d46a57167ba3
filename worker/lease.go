package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/hold"
	"github.com/berthq/berth/runner/proc"
)

// CauseReleased is the worker's own cause for ending a lease: it has done its duty.
const CauseReleased runner.Cause = "released"

func (a *attempt) spec() job.Spec { return a.claim.Job.Spec }

// given reports whether the attempt is a lease whose holder has been told of it: it is never given a second time.
func (a *attempt) given() bool {
	l := a.claim.Record().Lease
	return l != nil && l.HeldAt != nil
}

// nobodyWaits says why a lease must not be given any more; "" when it may.
func nobodyWaits(s job.Spec) string {
	if !s.IsLease() || s.Lease == nil {
		return ""
	}
	if p := s.Lease.Asker; p != nil && !lives(p) {
		return fmt.Sprintf("whoever asked for it has gone (process %d)", p.PID)
	}
	if p := s.Lease.Process; p != nil && !lives(p) {
		return fmt.Sprintf("the process it was to end with has ended (%d)", p.PID)
	}
	return ""
}

// dismiss ends a lease that nobody waits for.
func (w *Worker) dismiss(d *queue.Delivery, why string) {
	claim, err := d.Claim(w.background, nil)
	if err == nil {
		err = claim.Finish(w.background, job.Result{Outcome: job.OutcomeCancelled, Reason: why})
	}
	w.log.Info("lease_dismissed", "job", d.Ref().String(), "reason", why, "err", err)
}

// lives reports whether the very process runs on this machine.
func lives(p *job.Process) bool {
	return p.Boot == proc.BootID() && proc.Alive(p.PID, uint64(p.Start))
}

// leaseRun is the run of a lease: a holder under a shim, so that locks, expiry and adoption are those of any run.
func (w *Worker) leaseRun(a *attempt) runner.Run {
	var until *hold.Process
	if l := a.spec().Lease; l != nil && l.Process != nil {
		until = &hold.Process{PID: l.Process.PID, Start: uint64(l.Process.Start)}
	}
	return runner.Run{
		ID: a.id, Command: hold.Command(until), Env: []string{}, Dir: "/", ExtraFiles: a.alloc.LockFiles,
		Grace: w.cfg.Grace, SessionGrace: w.sessionGrace(), TimeLimit: a.spec().LeaseTerm(),
		LogCap: w.cfg.LogCap, Note: a.note().encode(),
	}
}

// give tells the holder of a lease that the GPUs are his. If that cannot be said in time the lease is not his: it is
// taken back, and waits on.
func (w *Worker) give(a *attempt) {
	w.runs.add(a) // who is told may ask for it at once
	ctx, cancel := context.WithTimeout(w.background, w.cfg.Queue.Options().ClaimTTL/4)
	defer cancel()
	if err := a.claim.Held(ctx, a.leaseEnd(), a.leased()); err != nil {
		a.log.Warn("lease_not_given", "err", err)
		a.stop(runner.SessionLost, "the holder could not be told")
		return
	}
	a.remember()
	w.noteLease(a, "took")
}

// leaseEnd is when a lease expires that nobody extends; nil is never.
func (a *attempt) leaseEnd() *time.Time {
	term := a.spec().LeaseTerm()
	if term == 0 {
		return nil
	}
	end := a.startedAt().Add(term).UTC()
	return &end
}

func (a *attempt) leased() []job.LeasedGPU {
	var gpus []job.LeasedGPU
	for _, d := range a.devices() {
		gpus = append(gpus, job.LeasedGPU{UUID: d.UUID, Index: d.Index})
	}
	return gpus
}

// noteLease writes the log of who took what, and how it was given back.
func (w *Worker) noteLease(a *attempt, text string) {
	var uuids, indexes []string
	for _, d := range a.devices() {
		uuids, indexes = append(uuids, d.UUID), append(indexes, d.Key())
	}
	ctx, cancel := context.WithTimeout(w.background, 10*time.Second)
	defer cancel()
	err := w.cfg.Queue.Note(ctx, queue.Event{
		Kind: queue.LeaseEvent, Project: a.project, By: a.claim.Job.User, Job: a.claim.Ref().String(), Machine: w.cfg.Machine,
		Text: text, Facts: map[string]string{"gpus": strings.Join(uuids, ","), "indexes": strings.Join(indexes, ",")},
	})
	if err != nil {
		a.log.Warn("event_not_stored", "kind", queue.LeaseEvent, "err", err)
	}
}

// obeyLease does what the holder of a lease wishes.
func (w *Worker) obeyLease(a *attempt, event queue.ControlEvent) {
	if event.Kind == queue.ControlRelease {
		why := "released by " + event.By
		if event.Reason != "" {
			why += ": " + event.Reason
		}
		a.stop(CauseReleased, why)
		return
	}
	var limit time.Duration // none
	if event.Until != nil {
		limit = max(event.Until.Sub(a.handle.StartedAt()), time.Millisecond)
	}
	if err := a.handle.SetTimeLimit(limit); err != nil {
		a.log.Warn("lease_not_extended", "until", event.Until, "err", err)
	}
}

// concludeLease ends a lease that was given. Whatever happened to it, it is not given again: its holder uses the GPUs he
// was told, and would not hear of others.
func (w *Worker) concludeLease(a *attempt, result job.Result) {
	result.State = result.Outcome.State()
	switch result.Outcome {
	case job.OutcomeTimeout:
		result.Reason = "expired: nobody released it in " + job.Duration(result.EndedAt.Sub(*result.StartedAt).Round(time.Second)).String()
	case job.OutcomeSucceeded:
		if l := a.spec().Lease; result.Reason == "" && l != nil && l.Process != nil {
			result.Reason = fmt.Sprintf("its process %d has ended", l.Process.PID)
		}
	case job.OutcomeInterrupted, job.OutcomeGPUFault, job.OutcomeMachineLost:
		result.State = job.Failed
	}
	w.settled(a, a.claim.Finish(w.background, result), result.Outcome, result.Reason)
	w.noteLease(a, result.Reason)
}

// uses reports whether a process is one of those for which the GPUs are leased: the named one, or one below it.
func (a *attempt) uses(pid int) bool {
	l := a.spec().Lease
	if l == nil || l.Process == nil || !lives(l.Process) {
		return false
	}
	for range maxDepth {
		if pid == l.Process.PID {
			return true
		}
		stat, err := proc.Read(pid)
		if err != nil || stat.PPID <= 1 {
			return false
		}
		pid = stat.PPID
	}
	return false
}

// maxDepth bounds the climb from a process to its ancestors, which change while we climb.
const maxDepth = 256

// pids are the processes that have the attempt's GPUs to use: of a lease those below the named one, not its holder.
func (a *attempt) pids() []int {
	if !a.spec().IsLease() {
		return a.handle.PIDs()
	}
	l := a.spec().Lease
	if l == nil || l.Process == nil || !lives(l.Process) {
		return nil
	}
	all, err := proc.All()
	if err != nil {
		return nil
	}
	list := []int{l.Process.PID}
	for _, s := range proc.Descendants(all, l.Process.PID) {
		list = append(list, s.PID)
	}
	return list
}

// has reports whether a process is one of the attempt's.
func (a *attempt) has(pid int) bool {
	if a.spec().IsLease() {
		return a.uses(pid)
	}
	return slices.Contains(a.handle.PIDs(), pid)
}
