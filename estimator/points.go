package estimator

import (
	"fmt"

	"github.com/berthq/berth/job"
)

// Points are the answers for a spec's tasks: one for each point of a matrix in the order of job.Expand, one alone for
// every other job (the tasks of an array are alike). An error names the point.
func Points(spec job.Spec, opts Options) ([]Answer, error) {
	tasks, err := job.Expand(spec)
	if err != nil {
		return nil, err
	}
	if tasks == nil || len(tasks.Params) == 0 {
		a, err := Estimate(spec, opts)
		if err != nil {
			return nil, err
		}
		return []Answer{a}, nil
	}
	answers := make([]Answer, 0, len(tasks.Params))
	for i, params := range tasks.Params {
		opts.Point = params
		a, err := Estimate(spec, opts)
		if err != nil {
			return nil, fmt.Errorf("matrix point %d %v: %w", i+1, params, err)
		}
		answers = append(answers, a)
	}
	return answers, nil
}
