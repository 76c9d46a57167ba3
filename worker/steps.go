package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// planSteps is the pipeline as the shim will run it, on the run's GPUs. Nothing has been started: what this machine
// cannot do is said here, and which step asks for it.
func (w *Worker) planSteps(a *attempt, words runner.Words) ([]runner.Step, error) {
	spec := a.spec()
	steps := make([]runner.Step, len(spec.Steps))
	for i, s := range spec.Steps {
		if why := w.unseenBy(s, a.devices()); why != "" {
			return nil, &runner.StartError{Code: 126, Reason: fmt.Sprintf("the pipeline was not started: step %s %s", spec.StepName(i), why)}
		}
		command, err := runner.Expand(s.Command, words)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", spec.StepName(i), err)
		}
		env := []string{"BERTH_STEP=" + spec.StepName(i), "BERTH_STEP_INDEX=" + strconv.Itoa(i+1), "BERTH_STEP_COUNT=" + strconv.Itoa(len(spec.Steps))}
		for _, key := range slices.Sorted(maps.Keys(s.Env)) {
			if !strings.HasPrefix(key, "BERTH_") && !slices.Contains(deviceWords, key) {
				env = append(env, key+"="+s.Env[key])
			}
		}
		steps[i] = runner.Step{Name: spec.StepName(i), Command: command, Env: env}
	}
	return steps, nil
}

// deviceWords are the variables that say which GPUs a run has; no step may name others.
var deviceWords = []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}

// unseenBy says what keeps a step from the run's GPUs, "" when nothing does.
func (w *Worker) unseenBy(s job.Step, devices []telemetry.Device) string {
	if kind := s.GPUMemory(); kind != "" && len(devices) == 0 {
		return "holds " + kind + " arrays, and the run has no GPU"
	}
	for _, framework := range s.Requires() {
		for _, d := range devices {
			if !w.frameworks.seen(framework, d.UUID) {
				return fmt.Sprintf("needs %s, which does not see GPU %s (%s) here", framework, d.Key(), d.Name)
			}
		}
	}
	return ""
}

// firstStep is where a pipeline begins: after what its last run finished, when the spec asks for that; else with its
// first step.
func firstStep(spec job.Spec, rec job.Record) int {
	first := len(doneBefore(spec, rec))
	if first == len(spec.Steps) {
		return 0
	}
	return first
}

// doneBefore are the leading steps that need not run again, as the latest attempt that knows of its steps left them.
func doneBefore(spec job.Spec, rec job.Record) []job.StepResult {
	if len(spec.Steps) == 0 || spec.Retry == nil || !spec.Retry.Resume {
		return nil
	}
	for _, a := range slices.Backward(rec.Attempts) {
		if len(a.Steps) != len(spec.Steps) {
			continue // running, or lost with its machine
		}
		failed := slices.IndexFunc(a.Steps, func(s job.StepResult) bool { return !s.Succeeded() })
		if failed < 0 {
			return nil // all done: whoever asks for it again wants all of it
		}
		return a.Steps[:failed]
	}
	return nil
}

// stepResults are the pipeline's steps as the result shows them: those of earlier attempts as they were, those that
// did not run by name alone.
func (a *attempt) stepResults(e end, rec job.Record) []job.StepResult {
	spec := a.spec()
	before := doneBefore(spec, rec)
	seen := a.steps.aggregates()
	var all []job.StepResult
	for i := range spec.Steps {
		r := job.StepResult{Name: spec.StepName(i)}
		switch {
		case i < len(before):
			r = before[i]
		case i < len(e.exit.Steps):
			a.tell(&r, e.exit.Steps[i], seen[i])
		}
		all = append(all, r)
	}
	return all
}

// tell fills in what a step did in this attempt.
func (a *attempt) tell(r *job.StepResult, s runner.StepState, seen *job.Aggregate) {
	if s.StartedAt.IsZero() {
		return
	}
	r.Attempt, r.StartedAt, r.GPUMonitoring = a.claim.Attempt(), &s.StartedAt, seen
	if s.EndedAt.IsZero() {
		return // nobody saw it end
	}
	r.Exit = &job.Exit{Code: s.Code, Signal: s.Signal}
	r.EndedAt, r.RunSeconds = &s.EndedAt, s.EndedAt.Sub(s.StartedAt).Seconds()
}

// inStep names the step in a verdict's reason.
func inStep(steps []job.StepResult, v Verdict) string {
	if v.Outcome == job.OutcomeSucceeded || v.Outcome == job.OutcomeCancelled {
		return v.Reason
	}
	for i, s := range steps {
		if s.StartedAt != nil && !s.Succeeded() {
			return fmt.Sprintf("step %s (%d of %d): %s", s.Name, i+1, len(steps), v.Reason)
		}
	}
	return v.Reason
}

// stepBooks are what the sampler has seen of each step.
type stepBooks struct {
	mu   sync.Mutex
	seen map[int]*job.Aggregate // of the steps before the one under way, and of this one before a restart of the worker
	at   int
	now  *telemetry.Meter // of the step under way
}

// turn gives the meter to the next step; nil ends the last one's.
func (b *stepBooks) turn(step int, m *telemetry.Meter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now != nil {
		b.add(b.at, b.now.Stop())
	}
	b.at, b.now = step, m
}

func (b *stepBooks) add(step int, agg job.Aggregate) {
	if b.seen == nil {
		b.seen = map[int]*job.Aggregate{}
	}
	merged := mergeAggregates(b.seen[step], agg)
	b.seen[step] = &merged
}

// kept is what a successor of this worker needs.
func (b *stepBooks) kept() map[int]*job.Aggregate {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := maps.Clone(b.seen)
	if b.now == nil {
		return all
	}
	if all == nil {
		all = map[int]*job.Aggregate{}
	}
	merged := mergeAggregates(all[b.at], b.now.Aggregate())
	all[b.at] = &merged
	return all
}

func (b *stepBooks) aggregates() map[int]*job.Aggregate {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.seen)
}

// stepMetering is the goroutine that gives each step of a pipeline its own meter.
type stepMetering struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// meterSteps follows the shim from step to step; it has nothing to do for a job without steps, or without a GPU.
func (w *Worker) meterSteps(a *attempt) *stepMetering {
	ctx, cancel := context.WithCancel(w.background)
	m := &stepMetering{cancel: cancel, done: make(chan struct{})}
	if len(a.spec().Steps) == 0 || len(a.devices()) == 0 {
		close(m.done)
		return m
	}
	go func() {
		defer close(m.done)
		defer a.steps.turn(-1, nil)
		w.followSteps(ctx, a)
	}()
	return m
}

func (m *stepMetering) stop() {
	m.cancel()
	<-m.done
}

// lookAgain is when the steps are looked at where no notification comes (a network file system).
const lookAgain = time.Second

func (w *Worker) followSteps(ctx context.Context, a *attempt) {
	changes, stop := a.handle.Changes()
	defer stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for at := -1; ; {
		if now := a.stepUnderWay(); now > at {
			at = now
			a.steps.turn(at, w.meterFor(a))
		}
		select {
		case <-ctx.Done():
			return
		case <-a.handle.Done():
			return
		case <-changes:
		case <-look.C:
		}
	}
}

// stepUnderWay is the last step that has begun; -1 where that is not known.
func (a *attempt) stepUnderWay() int {
	states, err := a.handle.Steps()
	if err != nil {
		a.log.Debug("steps_not_read", "err", err)
	}
	at := -1
	for i, s := range states {
		if !s.StartedAt.IsZero() {
			at = i
		}
	}
	return at
}
