package worker

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berthq/berth/job"
)

// Defaults of the retry rule.
const (
	DefaultBackoffInitial = 30 * time.Second
	DefaultBackoffMax     = 10 * time.Minute
	DefaultBackoffFactor  = 2.0
	DefaultSystemAttempts = 3
)

// Next is what follows an attempt: the job is queued again, or its round ends in State.
type Next struct {
	Again  bool
	Delay  time.Duration
	State  job.State
	Reason string // why there is no further try, when the attempt alone does not say it
}

// Follow decides what follows an attempt that ended in v. before are the attempts that ended earlier in this round.
// jitter in [0,1) spreads the delays of jobs that failed together. It looks at no clock.
//
// What the system did (interrupted, gpu_fault, machine_lost) is free; gpu_fault and machine_lost together are tried
// systemAttempts times, then the job is dead: a job that kills what it touches must not walk through the fleet. What
// the job did counts against its own retries, by its own rule.
func Follow(v Verdict, exit job.Exit, rule *job.Retry, before []job.Attempt, systemAttempts int, jitter float64) Next {
	switch v.Outcome {
	case job.OutcomeSucceeded, job.OutcomeCancelled:
		return Next{State: v.Outcome.State()}
	case job.OutcomeInterrupted:
		return Next{Again: true}
	case job.OutcomeGPUFault, job.OutcomeMachineLost:
		n := 1 + count(before, func(o job.Outcome) bool { return o == job.OutcomeGPUFault || o == job.OutcomeMachineLost })
		if n >= systemAttempts {
			return Next{State: job.Dead, Reason: fmt.Sprintf("the system failed under it %d times (system_attempts)", n)}
		}
		return Next{Again: true}
	}
	used := count(before, job.Outcome.Charged)
	if rule == nil || used >= rule.Retries || !wanted(v.Outcome, exit, rule) {
		return Next{State: v.Outcome.State()}
	}
	return Next{Again: true, Delay: backoff(rule.Backoff, used, jitter)}
}

func count(attempts []job.Attempt, is func(job.Outcome) bool) int {
	n := 0
	for _, a := range attempts {
		if is(a.Outcome) {
			n++
		}
	}
	return n
}

// wanted reports whether the rule tries such an end again: never_on wins over on; without on, everything the job may
// recover from by itself is tried, which a time limit is not.
func wanted(o job.Outcome, exit job.Exit, rule *job.Retry) bool {
	names := []string{string(o), "exit:" + strconv.Itoa(exit.Code)}
	if exit.Signal != "" {
		names = append(names, "signal:"+strings.TrimPrefix(exit.Signal, "SIG"), "signal:"+exit.Signal)
	}
	named := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(names, s) })
	}
	if named(rule.NeverOn) {
		return false
	}
	if len(rule.On) == 0 {
		return o != job.OutcomeTimeout
	}
	return named(rule.On)
}

// backoff is initial x factor^n, at most max, and then between 75 and 125 % of that.
func backoff(b *job.Backoff, n int, jitter float64) time.Duration {
	initial, most, factor := DefaultBackoffInitial, DefaultBackoffMax, DefaultBackoffFactor
	if b != nil {
		if d := time.Duration(b.Initial); d > 0 {
			initial = d
		}
		if d := time.Duration(b.Max); d > 0 {
			most = d
		}
		if b.Factor >= 1 {
			factor = b.Factor
		}
	}
	d := math.Min(float64(initial)*math.Pow(factor, float64(n)), float64(most))
	return time.Duration(d * (0.75 + jitter/2))
}
