package queue

import (
	"fmt"

	"github.com/berthq/berth/job"
)

// throttle says how many tasks of a group may be under way at a time. A task is under way from its release to a lane to
// its result, also while it waits there or for its backoff, so at most that many ever run.
type throttle struct {
	window int // on lanes at a time, whatever the group says
	tasks  int // group.max_concurrent or %8; 0 for any number
	gpus   int // group.max_gpus; 0 for any number
}

func throttleOf(j *job.Job, window int) throttle {
	t := throttle{window: window, tasks: j.Tasks.MaxConcurrent}
	if g := j.Spec.Group; g != nil {
		t.gpus = g.MaxGPUs
		if t.tasks == 0 || g.MaxConcurrent > 0 && g.MaxConcurrent < t.tasks {
			t.tasks = g.MaxConcurrent
		}
	}
	return t
}

// ofItsOwn reports whether the group limits itself.
func (t throttle) ofItsOwn() bool { return t.tasks > 0 || t.gpus > 0 }

// progress is how far a round of a group has come.
type progress struct {
	out    int // tasks under way
	gpus   int // GPUs of those
	ended  int
	failed int // counted only where somebody asks
}

// allow is how many of the tasks that are left may be released now; gpus tells how many GPUs the i-th next one needs.
//
// Without a limit of its own a group is topped up when half of its window is used: fewer, larger writes. With one, every
// place that becomes free is given at once.
func (t throttle) allow(now progress, left int, gpus func(i int) int) int {
	most := t.window
	if t.tasks > 0 {
		most = min(most, t.tasks)
	}
	free := most - now.out
	if !t.ofItsOwn() && free < refillStep(t.window) {
		return 0
	}
	n := max(0, min(free, left))
	if t.gpus == 0 {
		return n
	}
	held := now.gpus
	for i := range n {
		held += gpus(i)
		if held > t.gpus {
			return i
		}
	}
	return n
}

// refillStep is how many tasks must have ended before an unlimited group is topped up.
func refillStep(window int) int {
	if window <= 64 {
		return 1
	}
	return window / 2
}

// reach is how far beyond the cursor a task may have been released by a clerk that could not move it any more.
func (t throttle) reach() int {
	if t.tasks > 0 {
		return min(t.window, t.tasks)
	}
	return t.window
}

func maxFailures(j *job.Job) int {
	if j.Spec.Group == nil {
		return 0
	}
	return j.Spec.Group.MaxFailures
}

func failuresText(failed, limit int) string {
	return fmt.Sprintf("%d of its tasks failed and max_failures is %d", failed, limit)
}

// isFailure tells a task that failed from one that succeeded or was not wanted any more.
func isFailure(s job.State) bool { return s.Final() && s != job.Succeeded && s != job.Cancelled }
