package model

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
)

var good = Config{
	"model_type": "llama", "hidden_size": 4096.0, "num_hidden_layers": 32.0, "num_attention_heads": 32.0,
	"num_key_value_heads": 8.0, "intermediate_size": 14336.0, "vocab_size": 128256.0, "max_position_embeddings": 8192.0,
}

func TestBrokenConfigsSayWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field string
		value any
		says  string
	}{
		{"hidden_size", nil, "hidden_size or n_embd"},
		{"num_hidden_layers", nil, "num_hidden_layers"},
		{"num_attention_heads", nil, "num_attention_heads"},
		{"vocab_size", nil, "vocab_size"},
		{"intermediate_size", nil, "intermediate_size"},
		{"num_key_value_heads", 7.0, "not a multiple of num_key_value_heads 7"},
		{"num_attention_heads", 30.0, "multiple"},
		{"num_key_value_heads", 0.0, "num_key_value_heads is 0"},
		{"hidden_size", "wide", "hidden_size: wide is not a number"},
		{"hidden_size", -4096.0, "negative"},
		{"hidden_size", 4096.5, "not a whole number"},
		{"hidden_size", 1e12, "absurd"},
		{"num_hidden_layers", 1e5, "absurd"},
		{"vocab_size", 1e9, "absurd"},
		{"head_dim", 1e9, "absurd"},
		{"hidden_size", []any{1.0}, "not a number"},
		{"layer_types", []any{"full_attention"}, "1 entries for 32 layers"},
	} {
		cfg := maps.Clone(good)
		cfg[c.field] = c.value
		if c.field == "layer_types" {
			cfg["sliding_window"] = 128.0
		}
		_, err := Read(cfg, "")
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s = %v: %v; it must say %q", c.field, c.value, err, c.says)
		}
	}
	moe := maps.Clone(good)
	moe["model_type"], moe["num_local_experts"], moe["num_experts_per_tok"] = "mixtral", 4.0, 8.0
	if _, err := Read(moe, ""); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "more than the 4 experts") {
		t.Errorf("more experts per token than there are: %v", err)
	}
}

func TestUnknownArchitectureIsSaid(t *testing.T) {
	t.Parallel()
	cfg := maps.Clone(good)
	cfg["model_type"] = "warp_drive"
	if _, err := Read(cfg, "warp-7b"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "warp_drive") {
		t.Errorf("%v", err)
	}
	delete(cfg, "model_type")
	if _, err := Read(cfg, "somebody/model"); !errors.Is(err, ErrUnknown) {
		t.Errorf("no model_type: %v", err)
	}
	cfg["architectures"] = []any{"LlamaForCausalLM"}
	if m, err := Read(cfg, ""); err != nil || m.Architecture != "llama" {
		t.Errorf("by class: %v", err)
	}
	if _, err := Read(Config{}, ""); !errors.Is(err, ErrUnknown) {
		t.Errorf("an empty config: %v", err)
	}
}

func TestDecodeBounds(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"10 MB":          append([]byte(`{"a":"`), append(bytes.Repeat([]byte("x"), 10<<20), `"}`...)...),
		"no JSON":        []byte("<html>"),
		"a list":         []byte("[1,2]"),
		"null":           []byte("null"),
		"empty":          nil,
		"very deep":      []byte(strings.Repeat(`{"a":`, 20000)),
		"cut":            []byte(`{"hidden_size": 40`),
		"binary":         {0xff, 0xfe, 0},
		"number too far": []byte(`{"hidden_size": 1e999}`),
	} {
		if _, err := Decode(data); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Reading must not write: configs of the built-in table are shared.
func TestReadLeavesTheConfigAlone(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"chatglm", "falcon", "mpt", "dbrx", "qwen", "roberta", "gpt_bigcode", "gemma3", "llama"} {
		cfg := maps.Clone(good)
		cfg["model_type"] = kind
		before := len(cfg)
		_, _ = Read(cfg, "")
		if len(cfg) != before || cfg["num_key_value_heads"] != 8.0 || cfg["intermediate_size"] != 14336.0 {
			t.Errorf("%s changed the config: %v", kind, cfg)
		}
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set            Config
		global, window int64
	}{
		"none":                    {Config{}, 32, 0},
		"all layers":              {Config{"sliding_window": 4096.0}, 0, 32},
		"switched off":            {Config{"sliding_window": 4096.0, "use_sliding_window": false}, 32, 0},
		"null":                    {Config{"sliding_window": nil}, 32, 0},
		"said by pattern":         {Config{"sliding_window": 4096.0, "sliding_window_pattern": 4.0}, 8, 24},
		"qwen2 ignores its field": {Config{"model_type": "qwen2", "sliding_window": 131072.0, "max_window_layers": 28.0, "use_sliding_window": false}, 32, 0},
		"gemma2 alternates":       {Config{"model_type": "gemma2", "sliding_window": 4096.0}, 16, 16},
		"gemma3, five to one":     {Config{"model_type": "gemma3_text", "sliding_window": 512.0}, 5, 27},
	} {
		cfg := maps.Clone(good)
		maps.Copy(cfg, c.set)
		m, err := Read(cfg, "")
		if err != nil || m.KV.Global != c.global || m.KV.Window != c.window {
			t.Errorf("%s: %d keep all, %d a window (%v); want %d, %d", name, m.KV.Global, m.KV.Window, err, c.global, c.window)
		}
	}
}

func TestQuantisationIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  Config
		name string
		want string
		bits float64
	}{
		"none":               {Config{}, "x/y-7b", "", 0},
		"gptq":               {Config{"quantization_config": map[string]any{"quant_method": "gptq", "bits": 4.0, "group_size": 128.0}}, "", "gptq", 4.15625},
		"gptq 8":             {Config{"quantization_config": map[string]any{"quant_method": "gptq", "bits": 8.0, "group_size": 128.0}}, "", "gptq", 8.1875},
		"awq":                {Config{"quantization_config": map[string]any{"quant_method": "awq", "bits": 4.0, "group_size": 64.0}}, "", "awq", 4.3125},
		"bnb 4":              {Config{"quantization_config": map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true}}, "", "nf4", 4.5},
		"fp8":                {Config{"quantization_config": map[string]any{"quant_method": "fp8", "weight_block_size": []any{128.0, 128.0}}}, "", "fp8", 8.01},
		"mxfp4":              {Config{"quantization_config": map[string]any{"quant_method": "mxfp4"}}, "", "mxfp4", 4.25},
		"compressed fp8":     {Config{"quantization_config": map[string]any{"quant_method": "compressed-tensors", "config_groups": map[string]any{"group_0": map[string]any{"weights": map[string]any{"type": "float", "num_bits": 8.0}}}}}, "", "fp8", 8.01},
		"compressed w4a16":   {Config{"quantization_config": map[string]any{"quant_method": "compressed-tensors", "config_groups": map[string]any{"group_0": map[string]any{"weights": map[string]any{"type": "int", "num_bits": 4.0, "group_size": 128.0}}}}}, "", "int4", 4.125},
		"by dtype":           {Config{"torch_dtype": "float8_e4m3fn"}, "", "fp8", 8.01},
		"by name AWQ":        {Config{}, "Qwen/Qwen2.5-7B-Instruct-AWQ", "int4", 4.15625},
		"by name GPTQ-Int8":  {Config{}, "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq-int8", 8.1875},
		"by name FP8":        {Config{}, "Qwen/Qwen3-4B-FP8", "fp8", 8.01},
		"a name's own parts": {Config{}, "my/hawq-fp8x", "", 0},
	} {
		cfg := maps.Clone(good)
		maps.Copy(cfg, c.set)
		m, err := Read(cfg, c.name)
		if err != nil || m.Quant.Name != c.want || m.Quant.Bits != c.bits {
			t.Errorf("%s: %+v (%v), want %s %g", name, m.Quant, err, c.want, c.bits)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, row := range table(f) {
		f.Add([]byte(mustJSON(row.Config)), row.Name)
	}
	f.Add([]byte(`{"model_type":"gemma3","text_config":{},"vision_config":{"patch_size":0}}`), "x")
	f.Add([]byte(`{"_class_name":"UNet2DConditionModel","block_out_channels":[1,2]}`), "x")
	f.Add([]byte(`{"unet":{"_class_name":"AutoencoderKL","block_out_channels":[128]}}`), "x")
	for kind := range readers {
		f.Add([]byte(`{"model_type":"`+kind+`","_class_name":"`+kind+`","hidden_size":64,"d_model":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"intermediate_size":99999}`), kind)
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		c, err := Decode(data)
		if err != nil {
			return
		}
		m, err := Read(c, name)
		if err != nil {
			if !errors.Is(err, ErrConfig) && !errors.Is(err, ErrUnknown) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		if m.Params() < 0 || m.ActiveParams() < 0 || m.ActiveParams() > m.Params() || m.KVBytesPerToken(2) < 0 {
			t.Fatalf("params %d, active %d, kv %d", m.Params(), m.ActiveParams(), m.KVBytesPerToken(2))
		}
		for _, x := range m.Tensors {
			if b := m.Quant.WeightBytes(m, x, 2); !(b >= 0) || x.Count < 0 {
				t.Fatalf("tensor %+v weighs %g", x, b)
			}
		}
	})
}
