package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/shim"
)

// Step is one command of a pipeline. Env comes on top of the run's.
type Step struct {
	Name    string
	Command []string
	Env     []string
}

// StepState is how far one step of a run has come.
type StepState struct {
	Name      string
	StartedAt time.Time // zero: it has not run in this run
	EndedAt   time.Time // zero: it has not ended, as far as anybody saw
	Code      int       // 128+n when a signal ended it
	Signal    string
}

func stepsOf(run Run) ([]shim.Step, error) {
	if len(run.Steps) == 0 {
		return nil, nil
	}
	if run.FirstStep < 0 || run.FirstStep >= len(run.Steps) {
		return nil, fmt.Errorf("run %s: step %d of %d cannot be the first", run.ID, run.FirstStep, len(run.Steps))
	}
	steps := make([]shim.Step, len(run.Steps))
	for i, s := range run.Steps {
		steps[i] = shim.Step(s)
	}
	return steps, nil
}

// Steps says how far the run's pipeline has come; nil for a run without one.
func (h *Handle) Steps() ([]StepState, error) {
	states, err := readSteps(h.dir)
	if err != nil {
		return nil, fmt.Errorf("how far the steps of run %s are: %w", h.kept.ID, err)
	}
	return states, nil
}

func readSteps(dir string) ([]StepState, error) {
	b, err := os.ReadFile(filepath.Join(dir, shim.StepsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var seen []shim.StepState
	if err := json.Unmarshal(b, &seen); err != nil {
		return nil, err
	}
	return stepStates(seen), nil
}

func stepStates(seen []shim.StepState) []StepState {
	var states []StepState
	for _, s := range seen {
		state := StepState{Name: s.Name, StartedAt: s.StartedAt}
		if s.Ended {
			state.EndedAt, state.Code = s.StartedAt.Add(s.Elapsed), s.Code
		}
		if s.Signal != 0 {
			state.Signal = signalName(syscall.Signal(s.Signal))
		}
		states = append(states, state)
	}
	return states
}

// Changes gives a value after something changed in the run's folder: a step began, output came. Call stop at the end.
func (h *Handle) Changes() (changes <-chan struct{}, stop func()) { return h.p.waker.watch(h.dir) }
