package estimator

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

func autoSpec(model string, params map[string]any) job.Spec {
	s := job.Spec{Command: job.Command{"true"}, Parameters: params}
	if model != "" {
		s.Model = &job.Model{IDOrPath: model}
	}
	return s
}

func choiceOf(values ...any) map[string]any {
	return map[string]any{"type": "choice", "values": values}
}

// The founding rule's outputs; they must not change.
func TestAutotunerRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		model  string
		params map[string]any
		gpus   int
		mb     int64
	}{
		{"nothing set", "", map[string]any{"lr": 0.1}, 1, 8000},
		{"tp", "llama-3-70b", map[string]any{"tensor-parallel-size": 4}, 4, 20000},
		{"tp list", "llama-3-70b", map[string]any{"tp-size": []any{1, 2, 4}}, 4, 20000},
		{"tp list unsorted", "llama-65b", map[string]any{"tp-size": []any{1, 8, 2}}, 8, 20000},
		{"tp x pp", "Llama-2-13B-chat", map[string]any{"tp_size": 2, "pp_size": 2}, 4, 12000},
		{"dp", "llama-2-7b", map[string]any{"tp": 2, "dp": 3}, 6, 12000},
		{"max of dp, dcp, cp", "x", map[string]any{"tp": 2, "dp": 2, "dcp": 4, "cp": 3}, 8, 8000},
		{"cp", "x", map[string]any{"cp-size": 4, "tp": 1}, 4, 8000},
		{"decode context", "x", map[string]any{"tp": 8, "decode-context-parallel-size": 8}, 64, 8000},
		{"numeric string", "x", map[string]any{"tp": "4"}, 4, 8000},
		{"list of strings", "x", map[string]any{"tp": []any{"2", "4"}}, 4, 8000},
		{"choice", "x", map[string]any{"tp-size": choiceOf(1, 2, 4)}, 4, 8000},
		{"choice of strings", "x", map[string]any{"pp-size": choiceOf("2", "3")}, 3, 8000},
		{"first name wins", "x", map[string]any{"tensor-parallel-size": 2, "tp-size": 8, "tp": 16}, 2, 8000},
		{"second name wins", "x", map[string]any{"tp-size": 8, "tp": 16}, 8, 8000},
		{"third name wins", "x", map[string]any{"tp_size": 4, "tp": 16}, 4, 8000},
		{"float that is whole", "x", map[string]any{"tp": 4.0}, 4, 8000},
		{"other names are not counted", "x", map[string]any{"tensor_parallel_size": 4}, 1, 8000},
		{"all five", "x", map[string]any{"tp": 2, "pp": 3, "dp": 4, "cp": 5, "dcp": 6}, 36, 8000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Estimate(autoSpec(c.model, c.params), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got.GPUs != c.gpus || got.GPUMemoryMB != c.mb || got.Method != MethodAutotuner {
				t.Errorf("%d GPUs, %d MiB, %s; want %d, %d, autotuner", got.GPUs, got.GPUMemoryMB, got.Method, c.gpus, c.mb)
			}
			if got.Requirements().WorldSize != c.gpus || got.Why == "" {
				t.Errorf("requirements %+v", got.Requirements())
			}
		})
	}
}

func TestAutotunerRefusesWhatIsNoSize(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{
		"zero": 0, "negative": -2, "empty list": []any{}, "text": "four", "fraction": 1.5, "empty text": "",
		"zero in a list": []any{1, 0}, "nothing": nil, "true": true, "mapping": map[string]any{"a": 1},
		"choice without values": map[string]any{"type": "choice"}, "empty choice": choiceOf(), "range": map[string]any{"type": "range", "values": []any{1}},
		"nested list": []any{[]any{1}}, "absurd": 1e12, "hexadecimal": "0x10", "not a number": "NaN", "infinite": "Inf",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Estimate(autoSpec("x", map[string]any{"pp_size": value}), Options{})
			if !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), "parameters.pp_size") {
				t.Errorf("error %v; it must name parameters.pp_size", err)
			}
		})
	}
	if _, err := Estimate(autoSpec("x", map[string]any{"tp": 60000, "pp": 60000}), Options{}); !errors.Is(err, ErrValue) {
		t.Errorf("a world of 3.6e9 GPUs: %v", err)
	}
}

// Where reading the size as a number differs from looking for "7b" anywhere in the name.
func TestModelSizesAreNumbers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{
		// differs from substring matching: all of these contain 7b, 13b, 65b or 70b
		"gemma-2-27b": 8000, "Qwen3-1.7B": 8000, "Mixtral-8x7B-v0.1": 8000, "mixtral8x7b": 8000,
		"falcon-170b": 8000, "phi-0.7b": 8000, "yi-3.13b": 8000,
		// and these agree with it
		"meta-llama/Llama-2-7b-hf": 12000, "llama7b": 12000, "Llama-2-13b-chat-hf": 12000, "vicuna-13b-v1.5": 12000,
		"llama-65b": 20000, "llama-3-70b": 20000, "Llama-3.1-70B-Instruct": 20000, "DeepSeek-R1-Distill-Llama-70B": 20000,
		"/data/models/llama_70b": 20000, "Qwen2.5-7B-Instruct-GPTQ-Int4": 12000, "llama-3-8b": 8000, "Qwen3-30B-A3B": 8000,
		"opt-6.7b": 8000, "gpt2": 8000, "": 8000, "70b": 20000, "7.0b": 12000, "7bit": 8000, "bert-base": 8000, "llama-7b.gguf": 12000,
	} {
		if got, why := autotunerMemory(name); got != want {
			t.Errorf("%q: %d MiB (%s), want %d", name, got, why, want)
		}
	}
}
