package model

import "strings"

// Quant is a number format for weights.
type Quant struct {
	Name string // "", fp8, int8, int4, nf4, mxfp4, ...
	// Bits per element of a quantised weight, scales and zero points included.
	Bits float64
	// Untouched roles keep 16 bit: the checkpoint says which layers were left alone.
	ExpertsOnly    bool
	AttentionPlain bool
	HeadToo        bool
	// PlainLayers were left alone whole.
	PlainLayers int64
	// Dequantised: attention's latent up-projections are kept at 16 bit beside the quantised ones.
	Block bool
}

// NamedQuant is the format a person, a flag or a config calls so; ok is false for one that is not known.
func NamedQuant(name string) (Quant, bool) {
	switch flat(name) {
	case "", "none", "auto", "null", "bf16", "fp16", "float16", "bfloat16", "half", "16bit":
		return Quant{}, true
	case "fp8", "fp8e4m3", "float8", "float8e4m3fn", "fbgemmfp8", "w8a8fp8", "ptpcfp8", "modeloptfp8", "modelopt", "e4m3", "fp8block", "blockwisefp8", "fp8e5m2":
		return Quant{Name: "fp8", Bits: 8.01, Block: true}, true
	case "int8", "w8a8", "w8a8int8", "w8a16", "8bit", "llmint8", "bnb8", "bnbint8", "smoothquant", "expertsint8", "loadin8bit", "int8wo":
		return Quant{Name: "int8", Bits: 8.03}, true
	case "gptqint8", "gptq8bit", "gptq8":
		return Quant{Name: "gptq-int8", Bits: 8 + (16+8)/128.0}, true
	case "int4", "w4a16", "4bit", "gptq", "gptqint4", "gptqmarlin", "gptq4bit", "awq", "awqint4", "awqmarlin", "marlin", "wna16", "moewna16", "autoround", "w4a8", "int4wo", "intawq", "autoawq", "gptqmarlin24":
		return Quant{Name: "int4", Bits: 4 + (16+4)/128.0}, true
	case "nf4", "bnb", "bitsandbytes", "bnbnf4", "fp4", "qlora", "bnb4bit", "loadin4bit", "bnbfp4":
		return Quant{Name: "nf4", Bits: 4 + 32/64.0}, true
	case "nf4dq", "bnbnf4dq", "fp4dq", "bnbfp4dq":
		return Quant{Name: "nf4-dq", Bits: 4 + 8/64.0 + 32/(64*256.0)}, true
	case "mxfp4":
		return Quant{Name: "mxfp4", Bits: 4 + 8/32.0, ExpertsOnly: true}, true
	case "nvfp4", "modeloptfp4", "modelopt4":
		return Quant{Name: "nvfp4", Bits: 4 + 8/16.0}, true
	}
	return Quant{}, false
}

// quantOf reads a config's own quantisation: its quantization_config, else its dtype, else the model's name.
func quantOf(f *fields, name string) Quant {
	qc := f.within("quantization_config", "compression_config")
	if len(qc.c) == 0 {
		qc = f.within("text_config").within("quantization_config")
	}
	if len(qc.c) > 0 {
		return configQuant(qc)
	}
	said := strings.ToLower(f.text("torch_dtype", "dtype"))
	switch {
	case strings.Contains(said, "mxfp4"):
		q, _ := NamedQuant("mxfp4")
		return q
	case strings.Contains(said, "float8"), strings.Contains(said, "fp8"):
		q, _ := NamedQuant("fp8")
		return q
	case strings.Contains(said, "int8"):
		q, _ := NamedQuant("int8")
		return q
	}
	return quantOfName(name)
}

// quantOfName reads the suffix by which quantised checkpoints are published: -AWQ, -GPTQ-Int4, -FP8.
func quantOfName(name string) Quant {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	name = strings.ToLower(name)
	for _, suffix := range []string{"gptq-int8", "gptq-int4", "gptq_int4", "awq", "gptq", "fp8", "int8", "int4", "w4a16", "w8a8", "bnb-4bit", "mxfp4", "nvfp4"} {
		if hasToken(name, suffix) {
			q, _ := NamedQuant(suffix)
			return q
		}
	}
	return Quant{}
}

// hasToken finds a word that stands between separators.
func hasToken(name, token string) bool {
	for from := 0; ; {
		i := strings.Index(name[from:], token)
		if i < 0 {
			return false
		}
		at, end := from+i, from+i+len(token)
		if (at == 0 || strings.ContainsRune("-_./ ", rune(name[at-1]))) && (end == len(name) || strings.ContainsRune("-_./ ", rune(name[end]))) {
			return true
		}
		from = end
	}
}

// configQuant reads a quantization_config.
func configQuant(f *fields) Quant {
	method := strings.ToLower(f.text("quant_method", "quant_algo", "quantization"))
	bits := f.or(0, "bits", "w_bit", "weight_bits")
	var q Quant
	switch {
	case f.flag(false, "load_in_4bit", "_load_in_4bit"):
		q, _ = NamedQuant("nf4")
		if f.flag(false, "bnb_4bit_use_double_quant") {
			q, _ = NamedQuant("nf4-dq")
		}
	case f.flag(false, "load_in_8bit", "_load_in_8bit"):
		q, _ = NamedQuant("int8")
	case method == "compressed-tensors":
		q = compressedQuant(f)
	case (method == "gptq" || method == "awq" || method == "auto-round" || method == "intel/auto-round") && bits > 0:
		group := f.or(128, "group_size", "q_group_size")
		if group <= 0 || group > maxDim {
			group = 4096
		}
		q = Quant{Name: method, Bits: float64(bits) + float64(16+bits)/float64(group)}
	default:
		q, _ = NamedQuant(method)
	}
	plainModules(f, &q)
	return q
}

// compressedQuant reads the first group of a compressed-tensors config.
func compressedQuant(f *fields) Quant {
	groups := f.within("config_groups")
	for _, g := range groups.c {
		group, ok := g.(map[string]any)
		if !ok {
			continue
		}
		weights := (&fields{c: group, err: f.err}).within("weights")
		bits := weights.or(8, "num_bits")
		if weights.text("type") == "float" && bits == 8 {
			q, _ := NamedQuant("fp8")
			return q
		}
		size := weights.or(0, "group_size")
		extra := 0.03
		if size > 0 {
			extra = 16 / float64(size)
		}
		return Quant{Name: "int" + string(rune('0'+bits%10)), Bits: float64(bits) + extra}
	}
	q, _ := NamedQuant("int8")
	return q
}

// plainModules reads which layers a checkpoint left at 16 bit.
func plainModules(f *fields, q *Quant) {
	for _, name := range []string{"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"} {
		list, _ := f.c[name].([]any)
		attention := 0
		layers := map[string]bool{}
		for _, item := range list[:min(len(list), maxEntries)] {
			text, _ := item.(string)
			switch {
			case strings.Contains(text, "attn"):
				attention++
			case strings.Contains(text, "mlp") && strings.Contains(text, "layers."):
				_, rest, _ := strings.Cut(text, "layers.")
				number, _, _ := strings.Cut(rest, ".")
				if number != "*" {
					layers[number] = true
				}
			}
		}
		q.AttentionPlain = q.AttentionPlain || attention > 0
		q.PlainLayers = max(q.PlainLayers, int64(len(layers)))
	}
}

// dtype is the config's own number format.
func dtype(f *fields) string {
	said := strings.ToLower(f.text("torch_dtype", "dtype"))
	if said == "" {
		said = strings.ToLower(f.within("text_config").text("torch_dtype", "dtype"))
	}
	return strings.TrimPrefix(said, "torch.")
}

// DTypeBytes is the size of an element of an unquantised tensor.
func DTypeBytes(name string) float64 {
	switch {
	case strings.Contains(name, "float32"), name == "fp32", name == "float":
		return 4
	case strings.Contains(name, "float64"):
		return 8
	}
	return 2 // bfloat16, float16; quantised checkpoints keep the rest at 16 bit
}

// WeightBytes is what a tensor weighs in a format, the rest of the model at plain bytes per element.
func (q Quant) WeightBytes(m *Model, t Tensor, plain float64) float64 {
	n := float64(t.Count)
	if q.Bits == 0 || !q.covers(t.Role) {
		return n * plain
	}
	quantised := n * q.Bits / 8
	if q.PlainLayers > 0 && t.Role == MLP && m.Layers > 0 {
		share := min(1, float64(q.PlainLayers)/float64(m.Layers))
		return n*plain*share + quantised*(1-share)
	}
	return quantised
}

func (q Quant) covers(role Role) bool {
	switch role {
	case Expert:
		return true
	case Attention, KVProjection, LatentA:
		return !q.ExpertsOnly && !q.AttentionPlain
	case MLP, SharedExpert:
		return !q.ExpertsOnly
	case Head:
		return q.HeadToo
	}
	return false
}
