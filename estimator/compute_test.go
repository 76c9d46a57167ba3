package estimator

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/berthq/berth/estimator/model"
	"github.com/berthq/berth/job"
)

// llama8 is a config given inline.
var llama8 = map[string]any{
	"model_type": "llama", "hidden_size": 4096.0, "num_hidden_layers": 32.0, "num_attention_heads": 32.0, "num_key_value_heads": 8.0,
	"intermediate_size": 14336.0, "vocab_size": 128256.0, "max_position_embeddings": 8192.0, "torch_dtype": "bfloat16",
}

func estimated(t *testing.T, config map[string]any, engine string, params map[string]any) *Breakdown {
	t.Helper()
	a, err := Estimate(job.Spec{Command: job.Command{"x"}, Engine: engine, Model: &job.Model{IDOrPath: "m", Config: config}, Parameters: params}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a.Breakdown == nil {
		t.Fatal("nothing computed")
	}
	return a.Breakdown
}

func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	if d := got - want; d < -2 || d > 2 {
		t.Errorf("%s: %d MiB, want %d", what, got, want)
	}
}

func TestParallelSizesSplitWhatTheySplit(t *testing.T) {
	t.Parallel()
	one := estimated(t, llama8, "vllm", map[string]any{})
	near(t, "weights on one", one.WeightsMB, 15317)
	near(t, "cache of one sequence", one.KVCacheMB, 1024)

	tp := estimated(t, llama8, "vllm", map[string]any{"tp": 8})
	near(t, "weights, tp 8", tp.WeightsMB, 1916)
	near(t, "cache, tp 8", tp.KVCacheMB, 128)
	wide := estimated(t, llama8, "vllm", map[string]any{"tp": 16})
	near(t, "cache, tp 16: a KV head is never split", wide.KVCacheMB, 128)
	dcp := estimated(t, llama8, "vllm", map[string]any{"tp": 16, "dcp": 2})
	near(t, "cache, tp 16 dcp 2", dcp.KVCacheMB, 64)

	pp := estimated(t, llama8, "vllm", map[string]any{"pp": 4})
	near(t, "weights, pp 4: a quarter of the layers and one end", pp.WeightsMB, (15317-2*1002)/4+1002)
	near(t, "cache, pp 4", pp.KVCacheMB, 256)
	dp := estimated(t, llama8, "vllm", map[string]any{"dp": 4, "concurrency": 8})
	near(t, "weights, dp 4: each replica is whole", dp.WeightsMB, 15317)
	near(t, "cache, dp 4: two of eight sequences", dp.KVCacheMB, 2048)

	fp8 := estimated(t, llama8, "vllm", map[string]any{"kv-cache-dtype": "fp8", "concurrency": 4})
	near(t, "cache at fp8", fp8.KVCacheMB, 2048)
	if fp8.KVBytesPerToken != 65536 {
		t.Errorf("%d bytes a token at fp8", fp8.KVBytesPerToken)
	}
}

func TestLatentCacheIsOnEveryRank(t *testing.T) {
	t.Parallel()
	cfg, _ := model.Known("deepseek-ai/DeepSeek-V3")
	params := map[string]any{"max-model-len": 16384}
	one := estimated(t, cfg, "vllm", params)
	params["tp"] = 8
	tp := estimated(t, cfg, "vllm", params)
	if one.KVCacheMB != tp.KVCacheMB || one.KVCacheMB != 1098 {
		t.Errorf("%d MiB on one, %d under tp 8; both want 1098", one.KVCacheMB, tp.KVCacheMB)
	}
	params["dcp"] = 8
	near(t, "dcp 8 divides it", estimated(t, cfg, "vllm", params).KVCacheMB, 138)
	attention := map[string]any{"tp": 8, "dp": 8, "enable-dp-attention": true, "ep": 8, "concurrency": 8, "context-length": 16384}
	near(t, "attention dp: one of eight sequences", estimated(t, cfg, "sglang", attention).KVCacheMB, 1098)
	spread, whole := estimated(t, cfg, "sglang", attention), estimated(t, cfg, "sglang", map[string]any{"tp": 8})
	if spread.WeightsMB <= whole.WeightsMB {
		t.Errorf("attention dp holds attention whole: %d MiB, tp alone %d", spread.WeightsMB, whole.WeightsMB)
	}
}

func TestWindowsBoundTheCache(t *testing.T) {
	t.Parallel()
	cfg := maps.Clone(llama8)
	cfg["sliding_window"], cfg["sliding_window_pattern"], cfg["max_position_embeddings"] = 1024.0, 2.0, 8192.0
	near(t, "half the layers hold 1024 of 8192 tokens", estimated(t, cfg, "vllm", map[string]any{}).KVCacheMB, 512+64)
}

func TestWidths(t *testing.T) {
	t.Parallel()
	linear := 15317.0 - 2*1002.0 // embedding and head stay at 16 bit
	for _, c := range []struct {
		quant string
		bits  float64
	}{{"fp8", 8.01}, {"int8", 8.03}, {"awq", 4.15625}, {"gptq", 4.15625}, {"nf4", 4.5}, {"gptq-int8", 8.1875}} {
		got := estimated(t, llama8, "vllm", map[string]any{"quantization": c.quant}).WeightsMB
		want := linear*c.bits/16 + 2*1002
		if d := float64(got)/want - 1; d > 0.002 || d < -0.002 {
			t.Errorf("%s: %d MiB, want %.0f", c.quant, got, want)
		}
	}
	cfg := maps.Clone(llama8)
	cfg["torch_dtype"] = "float32"
	near(t, "plain run of a 32-bit checkpoint", estimated(t, cfg, "transformers", nil).WeightsMB, 2*15317)
	near(t, "an engine turns it into 16 bit", estimated(t, cfg, "vllm", nil).WeightsMB, 15317)
	near(t, "as asked", estimated(t, cfg, "transformers", map[string]any{"dtype": "bfloat16"}).WeightsMB, 15317)
}

// The published accounting of ZeRO, in MiB of 8.03 G parameters.
func TestTrainingStates(t *testing.T) {
	t.Parallel()
	const p = 8030261248.0 / mib
	layer := 218112000.0 / mib
	for _, c := range []struct {
		name   string
		params map[string]any
		states float64
	}{
		{"full: 16 bytes a parameter", map[string]any{"method": "full"}, 16 * p},
		{"32-bit gradients: 18", map[string]any{"method": "full", "fp32-gradients": true}, 18 * p},
		{"ZeRO-1: 4P + 12P/N", map[string]any{"zero-stage": 1, "dp": 8}, 4*p + 12*p/8},
		{"ZeRO-2: 4P + 16P/N", map[string]any{"zero-stage": 2, "dp": 8}, 4*p + 16*p/8},
		{"ZeRO-3: 4 x largest layer + 18P/N", map[string]any{"zero-stage": 3, "dp": 8}, 4*layer + 18*p/8},
		{"FSDP is ZeRO-3", map[string]any{"mode": "train", "fsdp": true, "dp": 8}, 4*layer + 18*p/8},
		{"8-bit Adam", map[string]any{"method": "full", "optimizer": "adamw-8bit"}, 6 * p},
		{"states in host memory", map[string]any{"method": "full", "offload-optimizer": true}, 4 * p},
	} {
		b := estimated(t, llama8, "", c.params)
		got := float64(b.WeightsMB + b.GradientsMB + b.OptimizerMB)
		if d := got/c.states - 1; d > 0.002 || d < -0.002 || b.Mode != "training" {
			t.Errorf("%s: %.0f MiB, want %.0f", c.name, got, c.states)
		}
	}
	lora, qlora := estimated(t, llama8, "", map[string]any{"method": "lora"}), estimated(t, llama8, "", map[string]any{"method": "qlora"})
	if lora.WeightsMB < 15317 || lora.WeightsMB > 15500 || lora.OptimizerMB > 600 {
		t.Errorf("LoRA: %+v", lora)
	}
	if qlora.WeightsMB < 5000 || qlora.WeightsMB > 6200 {
		t.Errorf("QLoRA holds the linears at 4.5 bits: %d MiB", qlora.WeightsMB)
	}
}

func TestRecomputeTradesActivations(t *testing.T) {
	t.Parallel()
	at := func(how string) int64 {
		return estimated(t, llama8, "", map[string]any{"method": "full", "seq-len": 8192, "recompute": how}).ActivationsMB
	}
	none, selective, full := at("none"), at("selective"), at("full")
	if none <= selective || selective <= full || full <= 0 {
		t.Errorf("none %d, selective %d, full %d", none, selective, full)
	}
	classic := map[string]any{"model_type": "gpt2", "n_embd": 1024.0, "n_layer": 24.0, "n_head": 16.0, "vocab_size": 50257.0, "n_positions": 1024.0}
	b := estimated(t, classic, "", map[string]any{"method": "full", "seq-len": 1024, "chunked-loss": true})
	want := int64((1024*24*34*1024 + 1024*50257*12/8) / mib) // 34 s b h a layer
	if d := b.ActivationsMB - want; d < -2 || d > 2 {
		t.Errorf("classic layers: %d MiB, want %d", b.ActivationsMB, want)
	}
}

func TestCards(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Command: job.Command{"vllm", "serve", "meta-llama/Llama-3.1-8B", "--max-model-len", "8192"}}
	a, err := Estimate(spec, Options{Cards: []Card{{"8 GB", 8188}, {"16 GB", 16376}, {"24 GB", 24564}, {"tiny", 512}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Fit{{"8 GB", 8188, false, 8}, {"16 GB", 16376, false, 2}, {"24 GB", 24564, true, 1}, {"tiny", 512, false, 0}}
	for i, f := range a.Fits {
		if f != want[i] {
			t.Errorf("%+v, want %+v (needs %d)", f, want[i], a.GPUMemoryMB)
		}
	}
	// the engine budgets within its share: half of 24 GB does not hold 15 GiB of weights
	spec.Command = append(spec.Command, "--gpu-memory-utilization", "0.5")
	a, err = Estimate(spec, Options{Cards: twoCards})
	if err != nil || a.Fits[0].Fits || !a.Fits[1].Fits || a.Breakdown.ReservesShare != 0.5 {
		t.Errorf("%+v, %v", a.Fits, err)
	}
}

func TestWhereTheConfigComesFrom(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(llama8)
	if err != nil {
		t.Fatal(err)
	}
	find := func(local bool) Options {
		return Options{Config: func(id string) (ConfigFile, bool) {
			return ConfigFile{JSON: data, Source: "somewhere", Local: local}, id == "my/model-70b"
		}}
	}
	spec := autoSpec("my/model-70b", map[string]any{"tp": 2})
	a, err := Estimate(spec, find(true))
	if err != nil || a.Method != MethodComputed || a.GPUs != 2 || a.GPUMemoryMB != a.Breakdown.TotalMB || a.Breakdown.ConfigSource != "somewhere" {
		t.Errorf("a local file decides: %+v, %v", a, err)
	}
	a, err = Estimate(spec, find(false))
	if err != nil || a.Method != MethodAutotuner || a.GPUMemoryMB != 20000 || a.Breakdown == nil {
		t.Errorf("a cache only shows: %+v, %v", a, err)
	}
	spec.Engine = "vllm"
	if a, err = Estimate(spec, find(false)); err != nil || a.GPUMemoryMB != a.Breakdown.TotalMB {
		t.Errorf("with an engine it decides: %+v, %v", a, err)
	}
	spec.Engine = "transformers"
	if a, err = Estimate(spec, find(false)); err != nil || a.Method != MethodComputed || a.GPUMemoryMB != a.Breakdown.TotalMB {
		t.Errorf("also with one that has no arithmetic of its own: %+v, %v", a, err)
	}
	a, err = Estimate(autoSpec("meta-llama/Llama-2-70b-hf", map[string]any{"tp": 4}), Options{})
	if err != nil || a.GPUMemoryMB != 20000 || a.Method != MethodAutotuner || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "built-in table") {
		t.Errorf("a founding input keeps its answer, with a warning: %+v, %v", a, err)
	}
}

func TestUnknownArchitectureFallsBackAndSaysSo(t *testing.T) {
	t.Parallel()
	cfg := maps.Clone(llama8)
	cfg["model_type"] = "warp_drive"
	for _, engine := range []string{"", "vllm"} {
		s := autoSpec("warp-13b", map[string]any{"tp": 2})
		s.Model.Config, s.Engine = cfg, engine
		a, err := Estimate(s, Options{})
		if err != nil || a.GPUs != 2 || a.GPUMemoryMB != 12000 || a.Breakdown != nil {
			t.Fatalf("%+v, %v", a, err)
		}
		if said := strings.Join(a.Warnings, " "); !strings.Contains(said, "warp_drive") || !strings.Contains(said, "autotuner rule") {
			t.Errorf("it does not say so: %q", said)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	broken := maps.Clone(llama8)
	broken["num_key_value_heads"] = 7.0
	for _, c := range []struct {
		config map[string]any
		params map[string]any
		says   string
	}{
		{broken, nil, "num_key_value_heads 7"},
		{llama8, map[string]any{"max-model-len": "long"}, "max-model-len"},
		{llama8, map[string]any{"max-model-len": 1e18}, "max-model-len"},
		{llama8, map[string]any{"concurrency": -4}, "concurrency"},
		{llama8, map[string]any{"gpu-memory-utilization": 1.5}, "gpu-memory-utilization"},
		{llama8, map[string]any{"quantization": "fp3"}, "fp3"},
		{llama8, map[string]any{"kv-cache-dtype": "int1"}, "int1"},
	} {
		s := autoSpec("m", c.params)
		s.Model.Config, s.Engine = c.config, "vllm"
		if _, err := Estimate(s, Options{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v; it must say %q", c.params, err, c.says)
		}
	}
	for says, params := range map[string]map[string]any{"zero-stage": {"zero-stage": 7}, "optimizer": {"method": "full", "optimizer": "adamm"}, "seq-len": {"method": "full", "seq-len": []any{"x"}}} {
		s := autoSpec("m", params)
		s.Model.Config = llama8
		if _, err := Estimate(s, Options{}); !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", params, err)
		}
	}
	big := Options{Config: func(string) (ConfigFile, bool) { return ConfigFile{JSON: make([]byte, 10<<20)}, true }}
	if _, err := Estimate(autoSpec("m", nil), big); !errors.Is(err, model.ErrConfig) || !strings.Contains(err.Error(), "10485760 bytes") {
		t.Errorf("10 MB of config: %v", err)
	}
}

func TestEngineFiles(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Command: job.Command{"vllm", "serve", "--config", "serve.yaml"}}
	opts := Options{EngineFile: func(path string) ([]byte, error) {
		if path != "serve.yaml" {
			return nil, errors.New("no such file")
		}
		return []byte("model: meta-llama/Llama-3.1-8B\ntensor-parallel-size: 4\nmax-model-len: 4096\n"), nil
	}}
	a, err := Estimate(spec, opts)
	if err != nil || a.GPUs != 4 || a.Breakdown == nil || a.Breakdown.Context != 4096 {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = Estimate(spec, Options{})
	if err != nil || a.GPUs != 1 || len(a.Warnings) == 0 || !strings.Contains(a.Warnings[0], "serve.yaml was not read") {
		t.Errorf("unread files are said: %+v, %v", a, err)
	}
	cyclic := Options{EngineFile: func(string) ([]byte, error) { return []byte("a: &a\n  b: *a\n"), nil }}
	if _, err = Estimate(spec, cyclic); err == nil || !strings.Contains(err.Error(), "serve.yaml") {
		t.Errorf("a cyclic anchor: %v", err)
	}
	ds := job.Spec{Command: job.Command{"deepspeed", "--num_gpus", "8", "t.py", "--deepspeed", "z.json", "--model_name_or_path", "Qwen/Qwen3-14B"}}
	a, err = Estimate(ds, Options{EngineFile: func(string) ([]byte, error) { return []byte(`{"zero_optimization":{"stage":2}}`), nil }})
	if err != nil || a.GPUs != 8 || a.Breakdown == nil || a.Breakdown.Mode != "training" || !strings.Contains(a.Breakdown.Terms[0].Why, "ZeRO-2") {
		t.Errorf("a DeepSpeed config's stage: %+v, %v", a, err)
	}
}

func TestPipelines(t *testing.T) {
	t.Parallel()
	step := func(in, out string) job.Step {
		return job.Step{Name: "s", Command: job.Command{"x"}, Input: in, Output: out, Frameworks: []string{"torch"}}
	}
	for _, c := range []struct {
		steps []job.Step
		gpus  int
		needs string
	}{
		{[]job.Step{step("numpy", "numpy")}, 0, "[torch]"}, {[]job.Step{step("numpy", "cupy"), step("cupy", "numpy")}, 1, "[cupy torch]"},
		{[]job.Step{step("numpy", ""), step("", "pyclesperanto")}, 1, "[pyclesperanto torch]"},
		{[]job.Step{step("jax", "jax"), step("torch", "torch")}, 1, "[jax torch]"},
	} {
		a, err := Estimate(job.Spec{Steps: c.steps}, Options{})
		if err != nil || a.GPUs != c.gpus || a.Method != MethodPipeline {
			t.Errorf("%+v: %d GPUs by %s (%v), want %d", c.steps, a.GPUs, a.Method, err, c.gpus)
		}
		if f := fmt.Sprint(a.Requirements().Frameworks); f != c.needs {
			t.Errorf("frameworks %v, want %s", f, c.needs)
		}
	}
}

func FuzzEstimate(f *testing.F) {
	text, _ := json.Marshal(llama8)
	f.Add("vllm serve m -tp 4", `{"tp":[1,2],"dcp":2}`, string(text), "vllm")
	f.Add("torchrun --nproc_per_node 8 t.py", `{"mode":"train","zero-stage":3}`, string(text), "")
	f.Add("x", `{"tp-size":{"type":"choice","values":["2"]},"max-model-len":"32k"}`, `{"model_type":"mamba","hidden_size":8,"num_hidden_layers":2,"vocab_size":9}`, "sglang")
	f.Add("x", `{"tp":65536,"pp":16}`, `{}`, "tensorrt-llm")
	f.Fuzz(func(t *testing.T, command, params, config, engine string) {
		s := job.Spec{Command: job.ShellCommand(command), Engine: engine, Model: &job.Model{IDOrPath: command}}
		if json.Unmarshal([]byte(params), &s.Parameters) != nil || json.Unmarshal([]byte(config), &s.Model.Config) != nil {
			return
		}
		a, err := Estimate(s, Options{})
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		if a.GPUs < 0 || a.GPUs > maxWorld || a.GPUMemoryMB < 0 || a.Method == "" || a.Why == "" {
			t.Fatalf("%+v", a)
		}
		if b := a.Breakdown; b != nil && (b.TotalMB <= 0 || b.WeightsMB < 0 || b.KVCacheMB < 0 || b.ActivationsMB < 0) {
			t.Fatalf("%+v", b)
		}
	})
}

func TestAnswersWarn(t *testing.T) {
	t.Parallel()
	two := job.Resources{GPUs: job.CountOf(2)}
	for says, s := range map[string]job.Spec{
		"vLLM starts on 4 GPUs":                            {Command: job.Command{"vllm", "serve", "m", "-tp", "4"}, Resources: two},
		"taken all the same":                               {Command: job.Command{"vllm", "serve", "m", "-tp", "4", "-dcp", "3"}, Resources: two},
		"tensor_parallel_size is not a name of the autotu": autoSpec("m", map[string]any{"tensor_parallel_size": 4}),
		"one process for each GPU":                         {Command: job.Command{"torchrun", "--nproc_per_node=gpu", "t.py"}},
		"you ask for 1000":                                 {Command: job.Command{"vllm", "serve", "Qwen/Qwen3-4B"}, Resources: job.Resources{GPUMemory: job.MemoryOf(1000)}},
		"90 % of whatever card":                            {Command: job.Command{"vllm", "serve", "Qwen/Qwen3-4B"}, Resources: job.Resources{Share: job.Shared}},
		"starts 2 launches":                                {Command: job.ShellCommand("vllm serve a -tp 1 & vllm serve b -tp 2")},
		"does not divide the 4 processes":                  {Command: job.Command{"torchrun", "--nproc_per_node=4", "t.py", "--tp-size", "3"}},
	} {
		a, err := Estimate(s, Options{})
		if err != nil || !strings.Contains(strings.Join(a.Warnings, "; "), says) {
			t.Errorf("%q is not said: %q, %v", says, a.Warnings, err)
		}
	}
}
