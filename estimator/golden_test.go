package estimator

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/berthq/berth/job"
)

// golden compares with testdata; the JSON names are what other programs read.
func golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name+".golden.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s", path, got)
	}
}

var twoCards = []Card{{"24 GB", 24564}, {"80 GB", 81559}}

func TestGoldenAnswers(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]job.Spec{
		"vllm": {Command: job.Command{"vllm", "serve", "meta-llama/Llama-3.1-8B", "-tp", "2", "--max-model-len", "8192"},
			Parameters: map[string]any{"concurrency": 16}},
		"autotuner": {Command: job.Command{"./tune"}, Model: &job.Model{IDOrPath: "llama-3-70b"}, Parameters: map[string]any{"tp-size": []any{1, 2, 4}}},
		"explicit":  {Command: job.Command{"./train"}, Resources: job.Resources{GPUs: job.CountOf(2), GPUMemory: job.MemoryOf(20480)}},
		"mla": {Engine: "sglang", Command: job.Command{"./serve"}, Model: &job.Model{IDOrPath: "deepseek-ai/DeepSeek-V3"},
			Parameters: map[string]any{"tp": 8, "dp": 8, "ep": 8, "enable-dp-attention": true, "context-length": 32768, "kv-cache-dtype": "fp8"}},
		"zero2": {Command: job.Command{"deepspeed", "--num_gpus", "4", "train.py"}, Model: &job.Model{IDOrPath: "meta-llama/Llama-3.2-3B"},
			Parameters: map[string]any{"mode": "train", "zero-stage": 2, "seq-len": 4096, "recompute": "full"}},
		"cpu": {Command: job.Command{"make"}},
	} {
		a, err := Estimate(spec, Options{Cards: twoCards})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden(t, name, a)
	}
}
