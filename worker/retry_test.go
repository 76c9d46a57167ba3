package worker

import (
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func attempts(outcomes ...job.Outcome) []job.Attempt {
	var all []job.Attempt
	for i, o := range outcomes {
		all = append(all, job.Attempt{Attempt: i + 1, Outcome: o})
	}
	return all
}

func TestFollow(t *testing.T) {
	t.Parallel()
	twice := &job.Retry{Retries: 2}
	for _, c := range []struct {
		name   string
		v      job.Outcome
		exit   job.Exit
		rule   *job.Retry
		before []job.Attempt
		again  bool
		state  job.State
		delay  time.Duration // with jitter 0.5, so the plain figure
	}{
		{"success", job.OutcomeSucceeded, exited(0), twice, nil, false, job.Succeeded, 0},
		{"failure without a rule", job.OutcomeFailed, exited(1), nil, nil, false, job.Failed, 0},
		{"first retry", job.OutcomeFailed, exited(1), twice, nil, true, "", 30 * time.Second},
		{"second retry waits longer", job.OutcomeFailed, exited(1), twice, attempts(job.OutcomeFailed), true, "", time.Minute},
		{"used up", job.OutcomeFailed, exited(1), twice, attempts(job.OutcomeFailed, job.OutcomeOOMGPU), false, job.Failed, 0},
		{"what the system did was free", job.OutcomeFailed, exited(1), twice, attempts(job.OutcomeInterrupted, job.OutcomeGPUFault), true, "", 30 * time.Second},
		{"never on", job.OutcomeFailed, exited(2), &job.Retry{Retries: 2, NeverOn: []string{"exit:2"}}, nil, false, job.Failed, 0},
		{"only on", job.OutcomeFailed, exited(1), &job.Retry{Retries: 2, On: []string{"oom_gpu", "exit:33"}}, nil, false, job.Failed, 0},
		{"on this code", job.OutcomeFailed, exited(33), &job.Retry{Retries: 2, On: []string{"oom_gpu", "exit:33"}}, nil, true, "", 30 * time.Second},
		{"on this signal", job.OutcomeFailed, signalled("SIGSEGV"), &job.Retry{Retries: 1, On: []string{"signal:SEGV"}}, nil, true, "", 30 * time.Second},
		{"never beats on", job.OutcomeOOMGPU, exited(1), &job.Retry{Retries: 2, On: []string{"oom_gpu"}, NeverOn: []string{"exit:1"}}, nil, false, job.OOMGPU, 0},
		{"timeout only when asked", job.OutcomeTimeout, exited(143), twice, nil, false, job.TimedOut, 0},
		{"timeout asked for", job.OutcomeTimeout, exited(143), &job.Retry{Retries: 1, On: []string{"timeout"}}, nil, true, "", 30 * time.Second},
		{"cap", job.OutcomeFailed, exited(1), &job.Retry{Retries: 99, Backoff: &job.Backoff{Initial: job.Duration(time.Second), Max: job.Duration(5 * time.Second), Factor: 10}},
			attempts(job.OutcomeFailed, job.OutcomeFailed), true, "", 5 * time.Second},
		{"interrupted for ever", job.OutcomeInterrupted, exited(143), nil, attempts(job.OutcomeInterrupted, job.OutcomeInterrupted, job.OutcomeInterrupted), true, "", 0},
		{"gpu fault", job.OutcomeGPUFault, exited(1), nil, attempts(job.OutcomeMachineLost), true, "", 0},
		{"poison", job.OutcomeGPUFault, exited(1), nil, attempts(job.OutcomeMachineLost, job.OutcomeInterrupted, job.OutcomeGPUFault), false, job.Dead, 0},
		{"cancelled", job.OutcomeCancelled, exited(143), twice, nil, false, job.Cancelled, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Follow(Verdict{Outcome: c.v}, c.exit, c.rule, c.before, DefaultSystemAttempts, 0.5)
			if got.Again != c.again || got.State != c.state || got.Delay != c.delay {
				t.Errorf("Follow = %+v, want again %v state %q delay %v", got, c.again, c.state, c.delay)
			}
		})
	}
}

func TestBackoffSpreads(t *testing.T) {
	t.Parallel()
	least, most := backoff(nil, 0, 0), backoff(nil, 0, 0.999)
	if least != 22500*time.Millisecond || most <= 37*time.Second || most >= 38*time.Second {
		t.Errorf("backoff spreads from %v to %v, want 75 %% to 125 %% of 30 s", least, most)
	}
}
