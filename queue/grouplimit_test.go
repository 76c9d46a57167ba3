package queue

import (
	"testing"

	"github.com/berthq/berth/job"
)

func TestThrottleAllows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits throttle
		now    progress
		left   int
		gpus   []int // of the next tasks
		want   int
	}{
		"a fresh group fills the window":                 {throttle{window: 512}, progress{}, 100_000, nil, 512},
		"a window less than half used is left":           {throttle{window: 512}, progress{out: 300}, 1000, nil, 0},
		"a window more than half used is topped up":      {throttle{window: 512}, progress{out: 256}, 1000, nil, 256},
		"a small window is topped up one by one":         {throttle{window: 8}, progress{out: 7}, 5, nil, 1},
		"%8 is filled":                                   {throttle{window: 512, tasks: 8}, progress{}, 150, nil, 8},
		"each free place of %8 is given at once":         {throttle{window: 512, tasks: 8}, progress{out: 7}, 3, nil, 1},
		"each free place of %200 too":                    {throttle{window: 512, tasks: 200}, progress{out: 199}, 3, nil, 1},
		"%8 with 8 under way":                            {throttle{window: 512, tasks: 8}, progress{out: 8}, 3, nil, 0},
		"never more than are left":                       {throttle{window: 512, tasks: 8}, progress{}, 3, nil, 3},
		"never less than none":                           {throttle{window: 4, tasks: 2}, progress{out: 5}, 3, nil, 0},
		"GPUs: 4 + 2 of 8, then 4 do not fit":            {throttle{window: 512, gpus: 8}, progress{out: 1, gpus: 2}, 9, []int{2, 4, 4, 1}, 2},
		"GPUs: order is kept, a small one does not pass": {throttle{window: 512, gpus: 8}, progress{out: 1, gpus: 6}, 9, []int{4, 1}, 0},
		"GPUs: tasks without one are free":               {throttle{window: 4, gpus: 1}, progress{out: 1, gpus: 1}, 9, []int{0, 0, 0, 0}, 3},
		"both limits: the narrower counts":               {throttle{window: 512, tasks: 3, gpus: 100}, progress{out: 1, gpus: 1}, 9, []int{1, 1, 1}, 2},
	} {
		gpus := func(i int) int { return c.gpus[i] }
		if got := c.limits.allow(c.now, c.left, gpus); got != c.want {
			t.Errorf("%s: %d may go, want %d", name, got, c.want)
		}
	}
}

func TestThrottleOf(t *testing.T) {
	t.Parallel()
	tasks := &job.Tasks{Indexes: "1-9", Count: 9}
	limited := &job.Tasks{Indexes: "1-9", Count: 9, MaxConcurrent: 4}
	for _, c := range []struct {
		tasks *job.Tasks
		group *job.Group
		want  throttle
	}{
		{tasks, nil, throttle{window: 512}},
		{limited, nil, throttle{window: 512, tasks: 4}},
		{tasks, &job.Group{MaxConcurrent: 3, MaxGPUs: 8}, throttle{window: 512, tasks: 3, gpus: 8}},
		{limited, &job.Group{MaxConcurrent: 3}, throttle{window: 512, tasks: 3}},
		{limited, &job.Group{MaxConcurrent: 5}, throttle{window: 512, tasks: 4}},
		{limited, &job.Group{MaxFailures: 5}, throttle{window: 512, tasks: 4}},
	} {
		j := &job.Job{Tasks: c.tasks, Spec: job.Spec{Group: c.group}}
		if got := throttleOf(j, 512); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.group, got, c.want)
		}
	}
}

func TestListText(t *testing.T) {
	t.Parallel()
	for want, indexes := range map[string][]int{"": nil, "7": {7}, "1-3": {1, 2, 3}, "0,2,4-6,9": {0, 2, 4, 5, 6, 9}, "3,1-2": {3, 1, 2}} {
		if got := listText(indexes); got != want {
			t.Errorf("%v: %q, want %q", indexes, got, want)
		}
	}
}
