package estimator

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

func TestEngineWorldSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		engine string
		params map[string]any
		gpus   int
	}{
		{"vLLM dcp is inside tp", "vllm", map[string]any{"tp": 8, "dcp": 8}, 8},
		{"vLLM tp dp dcp", "vllm", map[string]any{"tp": 8, "dp": 2, "dcp": 8}, 16},
		{"vLLM tp dp", "vLLM", map[string]any{"tp": 8, "dp": 2}, 16},
		{"vLLM tp pcp pp", "vllm", map[string]any{"tp": 4, "pcp": 2, "pp": 2}, 16},
		{"vLLM long names", "vllm", map[string]any{"tensor_parallel_size": 4, "pipeline-parallel-size": 2}, 8},
		{"vLLM expert parallel adds nothing", "vllm", map[string]any{"tp": 4, "enable-expert-parallel": true}, 4},
		{"vLLM sweep: largest point", "vllm", map[string]any{"tp": []any{1, 2, 4}, "pp": choiceOf(1, 2)}, 8},
		{"vLLM sweep: points it refuses do not count", "vllm", map[string]any{"tp": []any{2, 4}, "dcp": []any{1, 3, 4}}, 4},
		{"SGLang dp", "sglang", map[string]any{"tp": 4, "dp": 2}, 8},
		{"SGLang dp attention", "sglang", map[string]any{"tp": 8, "dp": 8, "enable-dp-attention": true}, 8},
		{"SGLang attn-cp", "sglang", map[string]any{"tp": 8, "attn-cp-size": 4}, 8},
		{"SGLang cp is attn-cp", "sglang", map[string]any{"tp": 8, "cp": 4}, 8},
		{"SGLang ep", "sglang", map[string]any{"tp": 8, "ep-size": 8}, 8},
		{"SGLang pp", "sglang", map[string]any{"tp": 4, "pp": 2}, 8},
		{"TensorRT-LLM cp", "tensorrt-llm", map[string]any{"tp": 4, "cp": 2}, 8},
		{"TensorRT-LLM experts", "trtllm", map[string]any{"tp_size": 8, "moe_ep_size": 4, "moe_tp_size": 2}, 8},
		{"TensorRT-LLM attention dp", "tensorrt_llm", map[string]any{"tensor_parallel_size": 8, "enable_attention_dp": true}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := autoSpec("some-model", c.params)
			s.Engine = c.engine
			got, err := Estimate(s, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got.GPUs != c.gpus {
				t.Errorf("%d GPUs, want %d (%s)", got.GPUs, c.gpus, got.Why)
			}
			if got.Method != "vllm" && got.Method != "sglang" && got.Method != "tensorrt-llm" {
				t.Errorf("method %q", got.Method)
			}
		})
	}
}

func TestEnginesRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine string
		params map[string]any
		rule   string
	}{
		{"vllm", map[string]any{"tp": 8, "dcp": 3}, "divisible by decode_context_parallel_size"},
		{"vllm", map[string]any{"tp": 2, "pcp": 2, "dp": 2}, "exclude each other"},
		{"vllm", map[string]any{"tp": 8, "nnodes": 2}, "one job on several machines is not in this version"},
		{"sglang", map[string]any{"tp": 8, "dp": 3, "enable-dp-attention": true}, "divisible by dp_size"},
		{"sglang", map[string]any{"tp": 8, "dp": 2, "nnodes": 2}, "several nodes needs enable-dp-attention"},
		{"sglang", map[string]any{"tp": 8, "ep": 3}, "divisible by ep_size"},
		{"sglang", map[string]any{"tp": 16, "nnodes": 2}, "one job on several machines"},
		{"tensorrt-llm", map[string]any{"tp": 8, "moe_tp_size": 2, "moe_ep_size": 2}, "must equal tp_size"},
		{"tensorrt-llm", map[string]any{"tp": 8, "dp": 2}, "enable_attention_dp"},
	} {
		s := autoSpec("some-model", c.params)
		s.Engine = c.engine
		_, err := Estimate(s, Options{})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.rule) {
			t.Errorf("%s %v: %v; want a refusal naming %q", c.engine, c.params, err, c.rule)
		}
	}
	if _, err := Estimate(job.Spec{Engine: "vlm", Command: job.Command{"x"}}, Options{}); err == nil || !strings.Contains(err.Error(), "vllm, sglang") {
		t.Errorf("unknown engine: %v", err)
	}
}

func TestCommandLines(t *testing.T) {
	t.Parallel()
	sh := job.ShellCommand
	for _, c := range []struct {
		command job.Command
		gpus    int
		method  string
	}{
		{job.Command{"vllm", "serve", "m", "-tp", "4", "-dcp", "2"}, 4, "vllm"},
		{job.Command{"vllm", "serve", "m", "-tp=4", "--pipeline-parallel-size=2"}, 8, "vllm"},
		{job.Command{"vllm", "serve", "m", "--tensor_parallel_size", "2", "-dp", "2"}, 4, "vllm"},
		{job.Command{"/opt/venv/bin/vllm", "bench", "throughput", "--model", "m", "-tp", "2"}, 2, "vllm"},
		{job.Command{"python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m", "--tensor-parallel-size", "8"}, 8, "vllm"},
		{job.Command{"python", "-m", "sglang.launch_server", "--model-path", "m", "--tp-size", "8", "--enable-dp-attention", "--dp", "8"}, 8, "sglang"},
		{job.Command{"python", "-m", "sglang.launch_server", "--tp", "2", "--dp-size", "2"}, 4, "sglang"},
		{job.Command{"trtllm-serve", "m", "--tp_size", "4", "--pp_size", "2"}, 8, "tensorrt-llm"},
		{sh("vllm serve m -tp 4"), 4, "vllm"},
		{sh("export HF_HOME=/x && source a.sh; CUDA_LAUNCH_BLOCKING=1 exec vllm serve m \\\n  -tp 2 -pp 2 2>&1 | tee log"), 4, "vllm"},
		{sh(`TP=4; vllm serve "m" --tensor-parallel-size ${TP}`), 4, "vllm"},
		{sh("vllm serve m -tp ${TP:-2}"), 2, "vllm"},
		{sh("for tp in 1 2 4; do vllm bench latency --model m -tp $tp; done"), 4, "vllm"},
		{sh("vllm serve m -tp 2 & sleep 30; vllm bench serve --model m"), 2, "vllm"},
		{sh("vllm serve a -tp 2 & vllm serve b -tp 4 & wait"), 6, "vllm"},
		{sh("vllm serve a -tp 2 & vllm bench latency --model m -tp 1; vllm bench latency --model m -tp 4"), 6, "vllm"},
		{sh("vllm bench latency --model m -tp 1; vllm bench latency --model m -tp 4"), 4, "vllm"},
		{job.Command{"env", "X=1", "nohup", "vllm", "serve", "m", "-tp", "2"}, 2, "vllm"},
		{job.Command{"numactl", "-N", "0", "bash", "-c", "vllm serve m -tp 2"}, 2, "vllm"},
		{job.Command{"torchrun", "--nproc_per_node", "4", "train.py", "--tp", "9"}, 4, "torchrun"},
		{job.Command{"torchrun", "--standalone", "--nproc-per-node=8", "-m", "pkg.train"}, 8, "torchrun"},
		{job.Command{"torchrun", "--nnodes=1:4", "--nproc_per_node=2", "t.py"}, 2, "torchrun"},
		{job.Command{"torchrun", "--nproc_per_node=gpu", "t.py"}, 1, "torchrun"},
		{job.Command{"python", "-m", "torch.distributed.run", "--nproc_per_node=2", "t.py"}, 2, "torchrun"},
		{job.Command{"accelerate", "launch", "--multi_gpu", "--num_processes", "4", "t.py"}, 4, "accelerate"},
		{job.Command{"accelerate", "launch", "--num_processes=2", "--mixed_precision", "bf16", "t.py"}, 2, "accelerate"},
		{job.Command{"deepspeed", "--num_gpus", "4", "t.py", "--deepspeed", "z.json"}, 4, "deepspeed"},
		{job.Command{"deepspeed", "--include", "localhost:0,1,2", "t.py"}, 3, "deepspeed"},
		{job.Command{"pip", "install", "vllm"}, 0, "default"},
		{job.Command{"echo", "vllm", "serve", "m", "-tp", "4"}, 0, "default"},
		{job.Command{"vllm", "bench", "serve", "--model", "m"}, 0, "default"},
		{sh("echo '-tp 4' # vllm serve m -tp 8"), 0, "default"},
		{job.Command{"python", "train.py"}, 0, "default"},
	} {
		got, err := Estimate(job.Spec{Command: c.command}, Options{})
		if err != nil {
			t.Errorf("%q: %v", c.command, err)
			continue
		}
		if got.GPUs != c.gpus || got.Method != c.method {
			t.Errorf("%q: %d GPUs by %s, want %d by %s (%s)", c.command, got.GPUs, got.Method, c.gpus, c.method, got.Why)
		}
	}
	for _, argv := range [][]string{
		{"torchrun", "--nnodes", "2", "--nproc_per_node", "8", "t.py"},
		{"accelerate", "launch", "--num_machines", "2", "t.py"},
		{"deepspeed", "--num_nodes", "2", "t.py"},
		{"vllm", "serve", "m", "-tp", "6", "-dcp", "4"},
	} {
		if _, err := Estimate(job.Spec{Command: argv}, Options{}); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v; want a refusal", argv, err)
		}
	}
}

func TestOrderOfSources(t *testing.T) {
	t.Parallel()
	base := job.Spec{
		Command: job.Command{"vllm", "serve", "m", "-tp", "4"}, Model: &job.Model{IDOrPath: "llama-3-70b"},
		Parameters: map[string]any{"tp-size": 2, "dcp-size": 2},
	}
	check := func(why string, s job.Spec, gpus int, mb int64, method string) {
		t.Helper()
		got, err := Estimate(s, Options{})
		if err != nil || got.GPUs != gpus || got.GPUMemoryMB != mb || got.Method != method {
			t.Errorf("%s: %d GPUs, %d MiB by %s (%v); want %d, %d by %s", why, got.GPUs, got.GPUMemoryMB, got.Method, err, gpus, mb, method)
		}
	}
	check("the engine's own flags beat the rule", base, 4, 20000, "vllm")
	wish := base
	wish.Resources = job.Resources{GPUs: job.CountOf(8), GPUMemory: job.MemoryOf(30000)}
	check("an explicit wish beats both", wish, 8, 30000, MethodExplicit)
	rule := base
	rule.Command = job.Command{"./run.sh"}
	check("no engine anywhere: the rule", rule, 4, 20000, MethodAutotuner)
	check("nothing at all: no GPU", job.Spec{Command: job.Command{"x"}}, 0, 0, MethodDefault)
	check("gpus: auto without a model", job.Spec{Command: job.Command{"x"}, Resources: job.Resources{GPUs: job.AutoCount}}, 1, 8000, MethodAutotuner)
	check("gpus by number, exclusive: whole card", job.Spec{Command: job.Command{"x"}, Resources: job.Resources{GPUs: job.CountOf(2)}}, 2, 0, MethodExplicit)
	check("no GPU by wish", job.Spec{Command: base.Command, Resources: job.Resources{GPUs: job.CountOf(0)}}, 0, 0, MethodExplicit)
}
