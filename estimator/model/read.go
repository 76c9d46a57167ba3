package model

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
)

var (
	readers      map[string]reader
	flatReaders  map[string]string // flat name -> reader's name
	longestFirst []string          // flat names
)

func init() { // readers of multimodal models look up their text model here
	readers = map[string]reader{
		"llama": llama, "mistral": llama, "mixtral": mixtralModel, "yi": llama, "internlm2": llama, "internlm3": llama,
		"internlm": llama, "baichuan": llama, "aquila": llama, "xverse": llama, "solar": llama, "smollm3": llama,
		"granite": llama, "granitemoe": llama, "deci": llama, "minicpm": llama, "exaone": llama, "codellama": llama,
		"ministral": llama, "seed_oss": seedOSS, "ernie4_5": llama, "olmo": of(llamaLike.with(func(t *traits) { t.normWidth = 0 })),
		"olmo2": olmoFull, "olmo3": olmoFull, "olmoe": olmoFull, "phi3": llama, "phi": phi, "phimoe": phiMoe,
		"qwen": qwen1, "qwen2": qwen2, "qwen2_moe": qwen2, "qwen3": qwen3, "qwen3_moe": qwen3,
		"qwen2_vl_text": qwen2, "qwen2_5_vl_text": qwen2, "qwen3_vl_text": qwen3, "qwen3_vl_moe_text": qwen3,
		"gemma": of(llamaLike.with(func(t *traits) { t.tied = true })), "gemma2": gemma2, "gemma3_text": gemma3Text, "gemma3": gemma3,
		"cohere": cohere, "cohere2": cohere, "dbrx": dbrx, "stablelm": stablelm, "stablelm_epoch": stablelm,
		"starcoder2": starcoder2, "nemotron": nemotron, "chatglm": chatglm, "glm": qwen2, "glm4": glm4, "glm4_moe": glm4Moe,
		"deepseek": deepseek, "deepseek_v2": deepseek, "deepseek_v3": deepseekV3, "kimi_k2": deepseekV3, "minicpm3": deepseek,
		"gpt_oss": gptOSS, "llama4_text": llama4Text, "llama4": llama4,
		"gpt2": gpt2Like, "gpt_bigcode": gptBigCode, "gpt_neo": gptNeo, "gptj": gptJ, "codegen": gptJ, "gpt_neox": gptNeoX,
		"opt": opt, "bloom": bloom, "falcon": falcon, "refinedweb": falcon, "refinedwebmodel": falcon, "mpt": mpt,
		"mamba": mamba, "falcon_mamba": mamba,
		"bert": bert, "roberta": roberta, "xlm-roberta": roberta, "camembert": roberta, "distilbert": distilbert,
		"albert": albert, "deberta-v2": debertaV2, "modernbert": modernBERT, "nomic_bert": nomicBERT,
		"t5": t5, "mt5": t5, "umt5": t5, "bart": bart, "mbart": bart, "whisper": whisper,
		"vit": vit, "dinov2": vit, "clip": clip, "siglip": siglip, "clip_text_model": clipText,
		"llava": llava, "llava_next": llava, "paligemma": paligemma, "mistral3": mistral3, "pixtral": llava,
		"qwen2_vl": qwen2VL, "qwen2_5_vl": qwen25VL, "qwen3_vl": qwen3VL, "qwen3_vl_moe": qwen3VL,
		"unet2dconditionmodel": unetModel, "autoencoderkl": autoencoder, "fluxtransformer2dmodel": flux, "sd3transformer2dmodel": sd3,
	}
	flatReaders = make(map[string]string, len(readers))
	for _, key := range slices.Sorted(maps.Keys(readers)) {
		if _, taken := flatReaders[flat(key)]; !taken {
			flatReaders[flat(key)] = key
			longestFirst = append(longestFirst, flat(key))
		}
	}
	slices.SortStableFunc(longestFirst, func(a, b string) int { return len(b) - len(a) })
}

func mixtralModel(f *fields) *Model {
	return llamaLike.with(func(t *traits) { t.experts, t.allSlide = mixtral, true }).build(f)
}

func seedOSS(f *fields) *Model {
	return llamaLike.with(func(t *traits) {
		t.qkvBias = f.flag(true, "attention_bias")
		t.outBias = f.flag(false, "attention_out_bias")
	}).build(f)
}

func deepseekV3(f *fields) *Model {
	return llamaLike.with(func(t *traits) {
		t.experts = func(f *fields, s *shape) { deepseekMixture(f, s); s.routerCorrection = true }
	}).build(f)
}

// Read builds the model of a config. The name helps only where a config does not say its architecture.
func Read(c Config, name string) (*Model, error) {
	f := newFields(c)
	kind, err := architecture(f, name)
	if err != nil {
		if m, ok := composite(c, name); ok {
			return m, nil
		}
		return nil, err
	}
	f.c = fillFromName(f, kind, name)
	m := readers[kind](f)
	if *f.err != nil {
		return nil, *f.err
	}
	m.Architecture = kind
	m.DType = dtype(f)
	m.Quant = quantOf(f, name)
	return m, nil
}

// architecture is the reader's name for a config: its model_type, its class, or what the model's name tells.
func architecture(f *fields, name string) (string, error) {
	said := f.text("model_type", "_class_name", "model_kind")
	if key := strings.ToLower(said); key != "" {
		if _, ok := readers[key]; ok {
			return key, nil
		}
	}
	for _, class := range architectures(f.c) {
		if key, ok := classKind(class); ok {
			return key, nil
		}
	}
	if said != "" {
		return "", fmt.Errorf("%w %q", ErrUnknown, short(said))
	}
	if !f.has("hidden_size") && !f.has("d_model") && !f.has("n_embd") {
		return "", fmt.Errorf("%w: the config names no model_type", ErrUnknown)
	}
	if key, ok := kindOfName(name); ok {
		return key, nil
	}
	return "", fmt.Errorf("%w: the config names no model_type, and the model's name tells none", ErrUnknown)
}

func architectures(c Config) []string {
	list, _ := c["architectures"].([]any)
	var out []string
	for _, a := range list[:min(len(list), 16)] {
		if s, ok := a.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// classKind strips what a class name says of its head: LlamaForCausalLM is llama.
func classKind(class string) (string, bool) {
	for _, cut := range []string{"For", "Model", "LMHead"} {
		if i := strings.Index(class, cut); i > 0 {
			class = class[:i]
			break
		}
	}
	key, ok := flatReaders[flat(class)]
	return key, ok
}

var flattener = strings.NewReplacer("_", "", "-", "", " ", "")

// flat is a name without case and separators.
func flat(name string) string { return flattener.Replace(strings.ToLower(name)) }

// kindOfName finds an architecture's own name in a model's name, the longest first.
func kindOfName(name string) (string, bool) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	said := flat(name)
	for _, key := range longestFirst {
		if strings.Contains(said, key) {
			return flatReaders[key], true
		}
	}
	return "", false
}

// fillFromName reads what vision names carry by convention when the config is a bare summary:
// vit_base_patch16_224 has patches of 16 in pictures of 224, and timm's classifiers know 1000 classes.
func fillFromName(f *fields, kind, name string) Config {
	c := f.c
	if kind != "vit" || f.has("model_type") || f.has("patch_size") {
		return c
	}
	_, rest, ok := strings.Cut(strings.ToLower(name), "patch")
	if !ok {
		return c
	}
	numbers := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	for i, field := range []string{"patch_size", "image_size"} {
		if i < len(numbers) && !f.has(field) {
			if n, err := strconv.Atoi(numbers[i]); err == nil {
				c = withField(c, field, float64(n))
			}
		}
	}
	if !f.has("num_classes") && !f.has("id2label") && !f.has("num_labels") {
		c = withField(c, "num_classes", 1000.0)
	}
	return c
}

// composite reads a pipeline: an object whose members are configs of their own.
func composite(c Config, name string) (*Model, bool) {
	sum := &Model{Kind: Composite}
	var parts []string
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		inner, ok := c[key].(map[string]any)
		if !ok || len(parts) > 16 {
			continue
		}
		if inner["model_type"] == nil && inner["_class_name"] == nil && inner["architectures"] == nil {
			continue
		}
		m, err := Read(inner, name)
		if err != nil {
			return nil, false
		}
		parts = append(parts, key)
		for _, t := range m.Tensors {
			sum.add(t.Role, false, t.Count)
		}
		sum.Hidden, sum.Intermediate = max(sum.Hidden, m.Hidden), max(sum.Intermediate, m.Intermediate)
		sum.LargestLayer, sum.ImageSize = max(sum.LargestLayer, m.LargestLayer), max(sum.ImageSize, m.ImageSize)
		sum.Layers += m.Layers
		if sum.DType == "" {
			sum.DType = m.DType
		}
	}
	sum.Architecture = strings.Join(parts, " + ")
	return sum, len(parts) > 0
}
