package shim

import (
	"errors"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/proc"
)

// Step is one command of a pipeline, with what its environment has beside the run's.
type Step struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"`
}

// StepState is how far one step has come: not started, running, ended.
type StepState struct {
	Name      string        `json:"name"`
	StartedAt time.Time     `json:"started_at,omitzero"` // zero: it has not run in this run
	Elapsed   time.Duration `json:"elapsed,omitempty"`   // once it has ended
	Ended     bool          `json:"ended,omitempty"`
	Code      int           `json:"code,omitempty"`
	Signal    int           `json:"signal,omitempty"`
}

// pipeline is which of the run's commands is under way. A run without steps is a pipeline of one that tells nobody.
type pipeline struct {
	steps   []Step
	at      int
	states  []StepState
	began   time.Duration // of the step under way, on the boot clock
	refused string        // why a step could not be started
}

func newPipeline(o Order) pipeline {
	p := pipeline{steps: o.Steps, at: o.First}
	for _, s := range o.Steps {
		p.states = append(p.states, StepState{Name: s.Name})
	}
	return p
}

// order is the run's order with the command of the step at hand.
func (p *pipeline) order(o Order) Order {
	if len(p.steps) == 0 {
		return o
	}
	s := p.steps[p.at]
	o.Command, o.Env = s.Command, append(o.Env[:len(o.Env):len(o.Env)], s.Env...)
	return o
}

// more reports whether a step comes after this one.
func (p *pipeline) more() bool { return p.at+1 < len(p.steps) }

func (p *pipeline) started(at time.Time, now time.Duration) {
	p.began = now
	if len(p.steps) > 0 {
		p.states[p.at].StartedAt = at
	}
}

func (p *pipeline) ended(status syscall.WaitStatus, now time.Duration) {
	if len(p.steps) == 0 || p.states[p.at].Ended {
		return
	}
	s := &p.states[p.at]
	s.Ended, s.Elapsed = true, now-p.began
	s.Code, s.Signal = decode(&status)
}

// write tells the worker, if there is one, how far the pipeline is.
func (p *pipeline) write() error {
	if len(p.steps) == 0 {
		return nil
	}
	return writeJSON(StepsFile, p.states)
}

// begin starts the command at hand and the goroutine that waits for it.
func (s *supervisor) begin() error {
	startedAt := time.Now()
	pid, err := launch(s.pipe.order(s.order), s.tree.group, s.writers[0], s.writers[1])
	if err != nil {
		return err
	}
	now := proc.Boottime()
	s.pipe.started(startedAt, now)
	go s.reap(pid, s.pipe.more())
	if !s.pipe.more() {
		s.closeWriters()
	}
	s.state.Job = process(pid)
	if s.state.StartedBoot == 0 {
		s.state.StartedAt, s.state.StartedBoot = startedAt, now
	}
	return nil
}

// commandOver follows the end of a command: with the next step when it ended well and nothing speaks against it,
// otherwise with the end of the run.
func (s *supervisor) commandOver(status syscall.WaitStatus) {
	now := proc.Boottime()
	s.pipe.ended(status, now)
	if !succeeded(status) || !s.pipe.more() {
		s.runOver(status, now)
		return
	}
	if s.plan.expire(now); s.plan.ending {
		go s.reap(0, false)
		s.runOver(status, now)
		return
	}
	s.pipe.at++
	if err := s.begin(); err != nil {
		go s.reap(0, false)
		s.refuseStep(err, now)
		return
	}
	s.settleCommand()
}

// refuseStep ends the run with a step that could not be started, as a shell would.
func (s *supervisor) refuseStep(err error, now time.Duration) {
	code := cannotExecute
	var r refusal
	if errors.As(err, &r) && r.code != 0 {
		code = r.code
	}
	status := syscall.WaitStatus(code << 8)
	s.pipe.refused = err.Error()
	s.pipe.started(time.Now(), now)
	s.pipe.ended(status, now)
	s.runOver(status, now)
}

// runOver: no further command will be started.
func (s *supervisor) runOver(status syscall.WaitStatus, now time.Duration) {
	s.closeWriters()
	s.status = &status
	if err := s.pipe.write(); err != nil {
		s.warn("how far the pipeline came could not be written: " + err.Error())
	}
	s.plan.commandEnded(now)
}

// settleCommand does for a later step what settle did for the first.
func (s *supervisor) settleCommand() {
	yieldMemory(s.state.Job.PID)
	if err := errors.Join(writeJSON(StateFile, s.state), s.pipe.write()); err != nil {
		s.warn("the run's state could not be written: " + err.Error())
	}
	slim()
}

// closeWriters lets the log pipes end with the last process that holds them.
func (s *supervisor) closeWriters() {
	for i, w := range s.writers {
		if w != nil {
			w.Close()
			s.writers[i] = nil
		}
	}
}

func succeeded(status syscall.WaitStatus) bool { return status.Exited() && status.ExitStatus() == 0 }
