package estimator

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

func TestEveryPointOfAMatrixHasItsOwnRequirement(t *testing.T) {
	t.Parallel()
	spec := job.Spec{
		Command: job.ShellCommand("vllm bench throughput --model m -tp {{.tp_size}} -pp {{ .pp_size }}"),
		Matrix:  map[string][]any{"tp-size": {1, 2, 4}, "pp-size": {1, 2}},
		Exclude: []map[string]any{{"tp-size": 1, "pp-size": 1}},
		Model:   &job.Model{IDOrPath: "llama-3-70b"},
	}
	answers, err := Points(spec, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []int{2, 4, 2, 4, 8} // pp 1: tp 2, 4; pp 2: tp 1, 2, 4
	if len(answers) != len(want) {
		t.Fatalf("%d points, want %d", len(answers), len(want))
	}
	for i, a := range answers {
		if a.GPUs != want[i] || a.Requirements().GPUs != want[i] || a.Method != "vllm" {
			t.Errorf("%v: %d GPUs by %s, want %d", a.Point, a.GPUs, a.Method, want[i])
		}
		if a.Point["tp-size"] == nil {
			t.Errorf("answer %d does not say its point", i)
		}
	}
	whole, err := Estimate(spec, Options{})
	if err != nil || whole.GPUs != 8 {
		t.Errorf("taken whole: %d GPUs (%v), want the largest point's 8", whole.GPUs, err)
	}
}

func TestPointsByTheRule(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Command: job.Command{"./tune.sh"}, Matrix: map[string][]any{"tp": {1, 4}, "lr": {0.1}}}
	answers, err := Points(spec, Options{})
	if err != nil || len(answers) != 2 || answers[0].GPUs != 1 || answers[1].GPUs != 4 {
		t.Errorf("%+v, %v", answers, err)
	}
	seeds := job.Spec{Command: job.Command{"./cpu.sh"}, Matrix: map[string][]any{"seed": {1, 2}}}
	answers, err = Points(seeds, Options{})
	if err != nil || answers[0].GPUs != 0 {
		t.Errorf("a sweep over seeds asks for no GPU: %+v, %v", answers, err)
	}
	array := job.Spec{Command: job.Command{"x"}, Array: "1-150", Resources: job.Resources{GPUs: job.CountOf(1)}}
	if answers, err = Points(array, Options{}); err != nil || len(answers) != 1 || answers[0].GPUs != 1 {
		t.Errorf("an array: %+v, %v", answers, err)
	}
	bad := job.Spec{Engine: "vllm", Command: job.Command{"x"}, Matrix: map[string][]any{"tp": {4}, "dcp": {3}}}
	if _, err = Points(bad, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "point dcp=3 tp=4") {
		t.Errorf("a refused point: %v", err)
	}
}
