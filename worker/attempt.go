package worker

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// attempt is one run this worker answers for, from its claim to its end.
type attempt struct {
	id      string // number[.index].attempt
	project string
	claim   *queue.Claim
	alloc   *gpuslots.Allocation
	handle  *runner.Handle
	meter   *telemetry.Meter
	log     *slog.Logger

	faults chan telemetry.Fault // fatal ones on its devices
	gone   chan struct{}        // closed when it is over and its place free, or left to the next worker

	mu       sync.Mutex
	measured *job.Aggregate // before the last restart of the worker
	fault    string         // the fault for which it was stopped
	warnings []string
	strayed  map[string]bool  // GPUs not its own on which it was seen
	seen     map[string][]int // its processes on each of its GPUs, when that was last read
	steps    stepBooks        // of a pipeline
	progress *job.Progress    // as its last line said

	toldProgress time.Time
}

func (a *attempt) devices() []telemetry.Device { return a.alloc.Devices }

// startedAt is when the run began.
func (a *attempt) startedAt() time.Time { return a.handle.StartedAt() }

// attempt runs a delivered job that has its place: rows 8 to 13 of docs/life-of-a-job.md.
// begun is called once the run has begun, or will not.
func (w *Worker) attempt(d *queue.Delivery, alloc *gpuslots.Allocation, begun func()) {
	defer begun()
	var ready *preparation
	claim, err := d.ClaimWhile(w.background, alloc.UUIDs(), func(c *queue.Claim) { ready = w.prepare(w.attemptOf(c, alloc)) })
	if err != nil {
		w.log.Debug("not_claimed", "job", d.Ref().String(), "err", err) // the queue has dealt with the delivery
		ready.drop()
		w.giveBack(alloc)
		return
	}
	if ready.a.claim != claim { // the job is not what it was when it was delivered
		ready.drop()
		ready = w.prepare(w.attemptOf(claim, alloc))
	}
	a := ready.a
	if why := nobodyWaits(a.spec()); why != "" {
		ready.drop()
		w.settled(a, claim.Finish(w.background, job.Result{Outcome: job.OutcomeCancelled, Reason: why}), job.OutcomeCancelled, why)
		w.giveBack(alloc)
		return
	}
	a.handle, err = w.start(ready)
	begun()
	if err != nil {
		a.log.Warn("not_started", "err", err)
		w.conclude(a, w.unstarted(err))
		w.giveBack(alloc)
		return
	}
	a.log.Info("run_started", "gpus", keys(alloc.Devices), "name", claim.Job.Spec.Name)
	if w.cfg.Runs != nil {
		w.cfg.Runs.Started(a.project, a.startedAt().Sub(claim.Record().QueuedAt))
	}
	if a.spec().IsLease() {
		w.give(a)
	}
	w.see(a)
}

// see watches a run, fresh or adopted, until it has ended and its end is stored, or until the worker detaches.
func (w *Worker) see(a *attempt) {
	a.gone = make(chan struct{})
	defer close(a.gone)
	w.runs.add(a)
	for _, d := range a.devices() { // a fault that came while the run was starting found nobody to end
		if f, faulty := w.sick.faultOf(d.UUID); faulty {
			a.faults <- f
			break
		}
	}
	w.tell()
	defer w.tell()
	defer w.runs.remove(a)
	a.meter = w.meterFor(a)
	log := w.shipLog(a)
	steps := w.meterSteps(a)
	exit, ended := w.watch(a)
	steps.stop()
	if !ended { // detached: the shim has it now
		if a.meter != nil { // a run without a GPU has none
			a.meter.Stop()
		}
		log.stop()
		return
	}
	log.finish()
	w.vacate(a, exit)
	w.conclude(a, endOf(exit))
	w.giveBack(a.alloc)
	if err := a.handle.Release(); err != nil {
		a.log.Warn("run_folder_kept", "err", err)
	}
}

// attemptOf is the attempt that a claim stands for.
func (w *Worker) attemptOf(claim *queue.Claim, alloc *gpuslots.Allocation) *attempt {
	return &attempt{
		id: claim.RunID(), project: claim.Job.Project, claim: claim, alloc: alloc,
		log:    w.log.With("job", claim.Ref().String(), "attempt", claim.Attempt()),
		faults: make(chan telemetry.Fault, 8),
	}
}

// runFor is the run of a job on its devices. It looks, and changes nothing: the job may not be ours yet.
func (w *Worker) runFor(a *attempt) (runner.Run, error) {
	if a.spec().IsLease() {
		return w.leaseRun(a), nil
	}
	j, ref := a.claim.Job, a.claim.Ref()
	account, err := w.account(a)
	if err != nil {
		return runner.Run{}, err
	}
	ids := runner.IDs{
		JobID: ref.String(), Attempt: a.claim.Attempt(), ArrayIndex: ref.IndexPtr(), Params: paramsOf(j, ref),
		StateDir: w.runner.StateDir(a.id), CheckpointDir: w.store.CheckpointDir(ref.String()), Script: j.Spec.Script != "",
		Base: accountEnviron(w.cfg.Environ, account),
	}
	words, rec := runner.WordsOf(a.devices(), ids), a.claim.Record()
	command, err := runner.Expand(j.Spec.Command, words)
	if err != nil {
		return runner.Run{}, err
	}
	steps, err := w.planSteps(a, words)
	if err != nil {
		return runner.Run{}, err
	}
	given, err := readSecrets(w.cfg.Secrets, j.Project, j.Spec.Secrets)
	if err != nil {
		return runner.Run{}, err
	}
	run := runner.Run{
		ID: a.id, Command: command, Steps: steps, FirstStep: firstStep(j.Spec, rec), Dir: j.Spec.Workdir, Script: j.Spec.Script,
		Env: runner.Environment(given.into(j.Spec), a.devices(), ids), Secrets: given.values(), Account: account,
		ExtraFiles: a.alloc.LockFiles, StopSignal: stopSignal(j.Spec), Grace: w.grace(j.Spec), SessionGrace: w.sessionGrace(),
		TimeLimit: a.claim.TakeTimeLimit(w.background), Checkpoint: checkpointOf(j.Spec), LogCap: w.cfg.LogCap,
		Limits:    runner.Limits{MemoryMB: rec.Requirements.MemoryMB, CPUs: rec.Requirements.CPUs, PIDs: w.maxProcesses()},
		GPUMinors: w.minors(a), Note: a.note().encode(),
	}
	if j.Spec.Image != "" {
		return w.inContainer(a, given.into(j.Spec), run, ids)
	}
	return run, nil
}

// maxProcesses: a run that forks without end must not take the machine with it. On hybrid machines the limit costs the
// start of every run some milliseconds, so there somebody has to ask for it.
func (w *Worker) maxProcesses() int {
	if w.cfg.MaxProcesses == 0 && w.runner.Isolation().Level == runner.FullIsolation {
		return DefaultMaxProcesses
	}
	return w.cfg.MaxProcesses
}

// minors are the device files that a run may open of this machine's GPUs; nil, all of them, where the source does not
// know their numbers, or the operator wants it so.
func (w *Worker) minors(a *attempt) *[]int {
	if w.cfg.OpenGPUs || len(w.devices) == 0 {
		return nil
	}
	for _, d := range w.devices {
		if d.Minor == nil {
			return nil
		}
	}
	given := []int{}
	for _, d := range a.devices() {
		given = append(given, *d.Minor)
	}
	return &given
}

// stopSignal is the one the job wishes for; "" leaves it to the runner.
func stopSignal(s job.Spec) string {
	if s.Stop == nil {
		return ""
	}
	return s.Stop.Signal
}

// grace is the job's, or this worker's.
func (w *Worker) grace(s job.Spec) time.Duration {
	if s.Stop != nil && s.Stop.Grace > 0 {
		return time.Duration(s.Stop.Grace)
	}
	return w.cfg.Grace
}

func checkpointOf(s job.Spec) *job.Checkpoint {
	if s.Checkpoint == nil {
		return nil
	}
	c := s.Checkpoint.Effective()
	return &c
}

// sessionGrace keeps stop and kill of a run whose session is over inside the quarter of claim_ttl that is left then.
func (w *Worker) sessionGrace() time.Duration {
	return min(w.cfg.Grace, w.cfg.Queue.Options().ClaimTTL/10)
}

func (a *attempt) note() note {
	a.mu.Lock()
	defer a.mu.Unlock()
	return note{
		Version: noteVersion, Claim: a.claim.State(), Given: a.alloc.State(), Measured: a.measured,
		Evidence: a.fault, Steps: a.steps.kept(),
	}
}

// remember writes down what was measured so far, so that a successor can go on from there.
func (a *attempt) remember() {
	n := a.note()
	if a.meter != nil {
		sofar := mergeAggregates(n.Measured, a.meter.Aggregate())
		n.Measured = &sofar
	}
	if err := a.handle.SetNote(n.encode()); err != nil {
		a.log.Warn("note_not_written", "err", err)
	}
}

// end is how an attempt ended, as conclude needs it.
type end struct {
	exit     runner.Exit
	startErr error // of the job
	machine  error // the machine could not start it: not the job's fault
}

// endOf is the end of a run whose command was started. What the command stood for may not have been.
func endOf(exit runner.Exit) end {
	e := end{exit: exit, machine: exit.MachineErr}
	if exit.NotStarted != nil {
		e.startErr = exit.NotStarted
	}
	return e
}

// unstarted tells a mistake in the job from a lack of this machine.
func (w *Worker) unstarted(err error) end {
	now := w.cfg.Now()
	e := end{exit: runner.Exit{StartedAt: now, EndedAt: now}}
	var mistake *runner.StartError
	if errors.As(err, &mistake) {
		e.exit.Code, e.startErr = mistake.Code, err
	} else {
		e.machine = err
	}
	return e
}

// conclude judges the end and stores it: result first, acknowledgement second. It keeps at it while the broker is away,
// since the run is over and nothing is lost by waiting; only a lost claim or the end of the worker ends it.
func (w *Worker) conclude(a *attempt, e end) {
	if e.machine != nil {
		w.count(a, outcomeMachineError, e)
		w.settled(a, a.claim.Return(w.background, machineErrorPause, e.machine.Error()), outcomeMachineError, e.machine.Error())
		return
	}
	rec, spec := a.claim.Record(), a.claim.Job.Spec
	result := w.result(a, e)
	w.count(a, result.Outcome, e)
	w.publishSeries(a)
	w.countUsage(a, result.RunSeconds)
	verdict := Verdict{result.Outcome, result.Reason, result.Evidence}
	w.afterwards(a, verdict)
	if a.given() {
		w.concludeLease(a, result)
		return
	}
	if verdict.Outcome == job.OutcomeInterrupted {
		w.settled(a, a.claim.Interrupt(w.background, 0, verdict.Reason, result.Steps), verdict.Outcome, verdict.Reason)
		return
	}
	next := Follow(verdict, *result.Exit, spec.Retry, earlier(rec), w.cfg.Queue.Options().SystemAttempts, w.jitter())
	if !next.Again {
		result.State = next.State
		if verdict.Outcome == job.OutcomeSucceeded {
			a.claim.NeedsNext(estimator.AfterSuccess(a.claim.Asked(), rec.Requirements, result.GPUMonitoring))
		}
		w.settled(a, a.claim.Finish(w.background, result), verdict.Outcome, verdict.Reason)
		w.acquit(a, a.claim.Record())
		w.dropCheckpoint(a)
		return
	}
	w.settled(a, a.claim.Requeue(w.background,
		job.Attempt{
			Outcome: verdict.Outcome, Exit: result.Exit, Reason: verdict.Reason, Evidence: verdict.Evidence,
			StartedAt: e.exit.StartedAt, EndedAt: result.EndedAt, Steps: result.Steps,
		},
		queue.Requeue{
			Delay: next.Delay, Why: string(verdict.Outcome) + ": " + verdict.Reason,
			Requirements: w.raised(verdict, rec.Requirements, result.GPUMonitoring), Run: &result,
		}), verdict.Outcome, verdict.Reason)
	w.acquit(a, a.claim.Record())
}

// outcomeMachineError is said of an attempt that this machine could not start; the job hears nothing of it.
const outcomeMachineError job.Outcome = "machine_error"

// count tells who counts that an attempt ended.
func (w *Worker) count(a *attempt, o job.Outcome, e end) {
	if w.cfg.Runs != nil {
		w.cfg.Runs.Ended(a.project, o, e.exit.EndedAt.Sub(e.exit.StartedAt), len(a.devices()))
	}
}

// A job that this machine could not start is looked at again after this: here, if nobody else takes it.
const machineErrorPause = 10 * time.Second

// settled says once how the attempt went.
func (w *Worker) settled(a *attempt, err error, outcome job.Outcome, reason string) {
	switch {
	case errors.Is(err, queue.ErrClaimLost):
		a.log.Warn("claim_lost", "outcome", outcome, "err", err)
	case err != nil:
		a.log.Error("end_not_published", "outcome", outcome, "err", err) // the record holds it; the janitor publishes it
	default:
		a.log.Info("run_ended", "outcome", outcome, "reason", reason)
	}
}

// earlier are the attempts of this round before the running one.
func earlier(rec job.Record) []job.Attempt {
	if len(rec.Attempts) == 0 {
		return nil
	}
	var before []job.Attempt
	for _, x := range rec.Attempts[:len(rec.Attempts)-1] {
		if max(x.Round, 1) == max(rec.Round, 1) {
			before = append(before, x)
		}
	}
	return before
}

// raised is what the job needs next time: more memory after the GPU's was full, else nil for "as before".
func (w *Worker) raised(v Verdict, had job.Requirements, seen *job.Aggregate) *job.Requirements {
	if v.Outcome != job.OutcomeOOMGPU {
		return nil
	}
	more := estimator.AfterOOM(had, seen, w.largestCardMB())
	return &more
}

func (w *Worker) dropCheckpoint(a *attempt) {
	if err := w.store.DropCheckpoint(a.claim.Ref().String()); err != nil {
		a.log.Warn("checkpoint_kept", "err", err)
	}
}

// giveBack releases a place and reads its GPUs at once: the pool gives them again only after a reading, which the next job
// then need not wait for.
func (w *Worker) giveBack(alloc *gpuslots.Allocation) {
	w.release(alloc)
	if len(alloc.Devices) == 0 {
		return
	}
	if snap, err := w.sampler.Refresh(w.background); err == nil {
		w.pool.Observe(snap, w.cfg.Now())
	}
}

func (w *Worker) release(alloc *gpuslots.Allocation) {
	if err := alloc.Release(); err != nil {
		w.log.Error("release_failed", "holder", alloc.Holder, "err", err)
	}
}
