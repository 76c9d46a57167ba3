package estimator

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/estimator/model"
	"github.com/berthq/berth/job"
)

// row is one model of testdata/models.json.
type row struct {
	Name         string         `json:"name"`
	Config       map[string]any `json:"config"`
	Params       int64          `json:"param_count"`
	KV16         int64          `json:"kv_bytes_per_token_16bit"`
	KV8          int64          `json:"kv_bytes_per_token_fp8"`
	Measurements []measurement  `json:"measurements"`
}

type measurement struct {
	Kind     string  `json:"kind"`
	Engine   string  `json:"engine"`
	Method   string  `json:"method"`
	Quant    string  `json:"quant"`
	DType    string  `json:"dtype"`
	Source   string  `json:"source"`
	Note     string  `json:"note"`
	SeqNote  string  `json:"seq_note"`
	GPU      string  `json:"gpu"`
	TP       int     `json:"tp"`
	GPUs     int     `json:"gpus"`
	MaxLen   int     `json:"max_model_len"`
	Input    int     `json:"input_len"`
	Output   int     `json:"gen_len"`
	Micro    int     `json:"micro_batch"`
	Weights  float64 `json:"weights_gib"`
	WeightsM float64 `json:"weights_mib"`
	NonTorch float64 `json:"non_torch_gib"`
	Peak     float64 `json:"act_peak_gib"`
	Torch    float64 `json:"peak_torch_gib"`
	KVTokens int64   `json:"kv_tokens"`
	KVGiB    float64 `json:"kv_gib"`
	KVAvail  float64 `json:"kv_avail_gib"`
	MemGB    float64 `json:"mem_gb"`
	MemMB    float64 `json:"mem_mb"`
	MaxRAM   any     `json:"max_gpu_ram_gb"`
	PeakGPU  float64 `json:"peak_per_gpu"`
	PeakGiB  float64 `json:"peak_gib"`
	PeakPer  float64 `json:"peak_per_gpu_gib"`
	Unit     string  `json:"unit"`
}

func rows(t testing.TB) []row {
	t.Helper()
	data, err := os.ReadFile("testdata/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Models []row `json:"models"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Models
}

// spec is the row as a user would write it.
func (r row) spec(params map[string]any) job.Spec {
	s := job.Spec{Command: job.Command{"true"}, Model: &job.Model{IDOrPath: r.Name, Config: r.Config}, Parameters: params}
	if _, err := model.Read(r.Config, r.Name); err != nil {
		s.Model.Config = nil // a summary without an architecture: the built-in table has the real fields
	}
	return s
}

func (m measurement) engineName() string {
	switch {
	case strings.HasPrefix(m.Engine, "vLLM"):
		return "vllm"
	case m.Engine == "SGLang":
		return "sglang"
	}
	return ""
}

// figure is one comparison.
type figure struct {
	label              string
	estimate, measured float64
	why                string // of a miss, or of a row left out
	left               bool
}

func (f figure) error() float64 { return f.estimate/f.measured - 1 }

func quantile(figs []figure, q float64, of func(figure) float64) float64 {
	var list []float64
	for _, f := range figs {
		if !f.left {
			list = append(list, of(f))
		}
	}
	if len(list) == 0 {
		return math.NaN()
	}
	slices.Sort(list)
	at := int(math.Ceil(q*float64(len(list)))) - 1
	return list[max(0, at)]
}

func absolute(f figure) float64 { return math.Abs(f.error()) }
func signed(f figure) float64   { return f.error() }

func markdown(title, unit string, figs []figure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| row | estimate %s | measured %s | error | |\n|---|---|---|---|---|\n", title, unit, unit)
	for _, f := range figs {
		e := fmt.Sprintf("%+.1f %%", 100*f.error())
		if f.left {
			e = "not counted"
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %s | %s |\n", f.label, f.estimate, f.measured, e, f.why)
	}
	return b.String()
}

func jobCount(n int) job.Count { return job.CountOf(n) }
