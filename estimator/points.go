package estimator

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/berthq/berth/job"
)

// Fill gives a job its tasks and what each of them needs, from its spec, and returns the answers as [Points] does. It is
// what makes a spec a job, whoever submits it.
func Fill(j *job.Job, opts Options) ([]Answer, error) {
	tasks, err := job.Expand(j.Spec)
	if err != nil {
		return nil, err
	}
	answers, err := pointsOf(j.Spec, tasks, opts)
	if err != nil {
		return nil, err
	}
	j.Tasks, j.Requirements = tasks, answers[0].Requirements()
	if tasks == nil || len(tasks.Params) == 0 {
		return answers, nil
	}
	for _, a := range answers {
		tasks.Requirements = append(tasks.Requirements, a.Requirements())
	}
	if !differ(tasks.Requirements) {
		tasks.Requirements = nil
	}
	if len(j.Spec.Points) > 0 {
		tasks.Params = nil // the spec says them
	}
	return answers, nil
}

// Points are the answers for a spec's tasks: one for each point of a matrix in the order of job.Expand, one alone for
// every other job (the tasks of an array are alike). An error names the point.
func Points(spec job.Spec, opts Options) ([]Answer, error) {
	tasks, err := job.Expand(spec)
	if err != nil {
		return nil, err
	}
	return pointsOf(spec, tasks, opts)
}

func pointsOf(spec job.Spec, tasks *job.Tasks, opts Options) ([]Answer, error) {
	if tasks == nil || len(tasks.Params) == 0 {
		a, err := Estimate(spec, opts)
		if err != nil {
			return nil, err
		}
		return []Answer{a}, nil
	}
	known := map[string]Answer{}
	answers := make([]Answer, 0, len(tasks.Params))
	for _, params := range tasks.Params {
		key := PointText(params)
		a, seen := known[key]
		if !seen {
			opts.Point = params
			var err error
			if a, err = Estimate(spec, opts); err != nil {
				return nil, fmt.Errorf("point %s: %w", key, err)
			}
			known[key] = a
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// PointText is a point as people read it: "pp-size=1 tp-size=2".
func PointText(params map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(params)) {
		parts = append(parts, k+"="+job.ParamText(params[k]))
	}
	return strings.Join(parts, " ")
}

// differ reports whether any task needs something else than the first.
func differ(all []job.Requirements) bool {
	return slices.ContainsFunc(all, func(r job.Requirements) bool { return !reflect.DeepEqual(r, all[0]) })
}
