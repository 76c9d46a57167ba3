package estimator_test

import (
	"fmt"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/job"
)

func Example() {
	spec := job.Spec{Command: job.ShellCommand("vllm serve meta-llama/Llama-3.1-8B -tp 2 --max-model-len 8192")}
	a, err := estimator.Estimate(spec, estimator.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.GPUs, a.Method, a.Breakdown.ParamCount)
	spec = job.Spec{Command: job.Command{"./tune"}, Model: &job.Model{IDOrPath: "llama-3-70b"}, Parameters: map[string]any{"tp-size": []any{1, 2, 4}}}
	a, _ = estimator.Estimate(spec, estimator.Options{})
	fmt.Println(a.Why)
	// Output:
	// 2 vllm 8030261248
	// autotuner rule: tp 4 x pp 1 x max(dp 1, dcp 1, cp 1) = 4 GPUs; 20000 MiB each by the autotuner rule (70B in the model's name)
}
