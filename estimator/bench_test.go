package estimator

import (
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// limit is what one estimate may cost.
const limit = 50 * time.Microsecond

var benchSpecs = map[string]job.Spec{
	"rule":   {Command: job.Command{"./tune"}, Model: &job.Model{IDOrPath: "some/llama-70b"}, Parameters: map[string]any{"tp-size": []any{1, 2, 4}, "pp-size": 2}},
	"engine": {Command: job.ShellCommand("vllm serve meta-llama/Llama-3.1-8B -tp 2 --max-model-len 8192"), Parameters: map[string]any{"concurrency": 16}},
	"mla":    {Engine: "sglang", Command: job.Command{"./serve"}, Model: &job.Model{IDOrPath: "deepseek-ai/DeepSeek-V3"}, Parameters: map[string]any{"tp": 8, "ep": 8, "dp": 8, "enable-dp-attention": true}},
	"train":  {Command: job.Command{"torchrun", "--nproc_per_node", "8", "t.py"}, Model: &job.Model{IDOrPath: "Qwen/Qwen3-14B"}, Parameters: map[string]any{"mode": "train", "zero-stage": 3}},
	"cpu":    {Command: job.Command{"make", "all"}},
}

func BenchmarkEstimate(b *testing.B) {
	for name, spec := range benchSpecs {
		b.Run(name, func(b *testing.B) { benchmarkEstimate(b, spec) })
	}
	b.Run("sweep", func(b *testing.B) {
		spec := job.Spec{Command: job.Command{"x"}, Engine: "vllm", Model: &job.Model{IDOrPath: "Qwen/Qwen3-14B"}}
		spec.Parameters = map[string]any{"tp": []any{1, 2, 4, 8}, "pp": []any{1, 2, 4}, "dp": []any{1, 2}, "max-model-len": 4096}
		benchmarkEstimate(b, spec)
	})
}

// benchmarkEstimate fails on the processor time of one estimate, which a busy machine does not stretch.
func benchmarkEstimate(b *testing.B, spec job.Spec) {
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		if _, err := Estimate(spec, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	per := (cpuTime(b) - start) / time.Duration(max(1, b.N))
	b.ReportMetric(float64(per), "cpu-ns/op")
	if b.N > 100 && per > limit {
		b.Errorf("%v of processor time an estimate, at most %v", per, limit)
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
