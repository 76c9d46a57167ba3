package model

// llamaLike is the common ground of today's decoders: two RMS norms a layer, a gated feed-forward, no biases.
var llamaLike = traits{norms: 2, normWidth: 1}

func (t traits) with(change func(*traits)) traits { change(&t); return t }

// reader reads one architecture.
type reader func(f *fields) *Model

func of(t traits) reader { return t.build }

// llama reads the biases its family states in the config.
func llama(f *fields) *Model {
	t := llamaLike
	t.qkvBias = f.flag(false, "attention_bias", "use_bias", "bias", "qkv_bias")
	t.outBias = f.flag(t.qkvBias, "attention_out_bias", "attention_output_bias")
	t.mlpBias = f.flag(false, "mlp_bias", "use_bias")
	t.experts = optionally(mixtral)
	t.allSlide = true
	if f.flag(false, "qk_norm", "use_qk_norm") {
		t.qk = qkHead
	}
	return t.build(f)
}

// qwen2 has biases on queries, keys and values alone.
func qwen2(f *fields) *Model {
	t := llamaLike
	t.qkvBias = f.flag(true, "attention_bias", "qkv_bias")
	if f.count("num_experts", "num_local_experts") > 0 {
		t.experts = qwenMixture
	}
	return t.build(f)
}

func qwen3(f *fields) *Model {
	t := llamaLike
	t.qk = qkHead
	t.qkvBias = f.flag(false, "attention_bias")
	t.outBias = t.qkvBias
	if f.count("num_experts", "num_local_experts") > 0 {
		t.experts = qwenMixture
	}
	return t.build(f)
}

func deepseek(f *fields) *Model {
	t := llamaLike
	if f.count("n_routed_experts", "num_local_experts", "num_experts") > 0 {
		t.experts = deepseekMixture
	}
	return t.build(f)
}

func glm4(f *fields) *Model {
	t := llamaLike
	t.norms = 4
	t.qkvBias = f.flag(false, "attention_bias")
	return t.build(f)
}

func glm4Moe(f *fields) *Model {
	t := llamaLike
	t.qkvBias = f.flag(false, "attention_bias")
	if f.flag(false, "use_qk_norm") {
		t.qk = qkHead
	}
	t.experts = func(f *fields, s *shape) { deepseekMixture(f, s); s.routerCorrection = true }
	return t.build(f)
}

func chatglm(f *fields) *Model {
	t := llamaLike
	t.qkvBias = f.flag(false, "add_qkv_bias")
	t.outBias = f.flag(false, "add_bias_linear")
	t.mlpBias = t.outBias
	if !f.flag(true, "multi_query_attention") {
		f.c = withField(f.c, "multi_query_group_num", nil)
	}
	return t.build(f)
}

func gemma2(f *fields) *Model {
	return llamaLike.with(func(t *traits) {
		t.norms, t.tied, t.pattern = 4, true, 2
		t.qkvBias = f.flag(false, "attention_bias")
	}).build(f)
}

func gemma3Text(f *fields) *Model {
	return llamaLike.with(func(t *traits) { t.norms, t.tied, t.qk, t.pattern = 4, true, qkHead, 6 }).build(f)
}

func gptOSS(f *fields) *Model {
	return llamaLike.with(func(t *traits) {
		t.qkvBias, t.outBias, t.sinks = true, true, true
		t.experts, t.pattern = gptOSSMixture, 2
	}).build(f)
}

// cohere runs attention and feed-forward side by side, after one norm without shift.
func cohere(f *fields) *Model {
	return llamaLike.with(func(t *traits) {
		t.norms, t.tied = 1, true
		t.qkvBias = f.flag(false, "attention_bias")
		t.outBias = t.qkvBias
		if f.flag(false, "use_qk_norm") {
			t.qk = qkFull
		}
		t.pattern = 4
	}).build(f)
}

func stablelm(f *fields) *Model {
	return llamaLike.with(func(t *traits) {
		t.normWidth = 2
		t.qkvBias = f.flag(false, "use_qkv_bias")
		if f.flag(false, "use_parallel_residual") {
			t.norms = 1
		}
		if f.flag(false, "qk_layernorm") {
			t.qk = qkFull
		}
	}).build(f)
}

func starcoder2(f *fields) *Model {
	bias := f.flag(true, "use_bias", "attention_bias")
	return traits{norms: 2, normWidth: 2, plain: true, tied: true, qkvBias: bias, outBias: bias, mlpBias: bias, allSlide: true}.build(f)
}

func phi(f *fields) *Model {
	return traits{norms: 1, normWidth: 2, plain: true, qkvBias: true, outBias: true, mlpBias: true, headBias: true}.build(f)
}

func phiMoe(f *fields) *Model {
	bias := f.flag(true, "attention_bias")
	return traits{norms: 2, normWidth: 2, qkvBias: bias, outBias: bias, headBias: f.flag(true, "lm_head_bias"), experts: mixtral}.build(f)
}

func nemotron(f *fields) *Model {
	bias := f.flag(false, "attention_bias")
	return traits{norms: 2, normWidth: 2, plain: true, qkvBias: bias, outBias: bias, mlpBias: f.flag(false, "mlp_bias")}.build(f)
}

// olmoFull norms queries and keys over all heads (OLMo 2, OLMo 3, OLMoE).
func olmoFull(f *fields) *Model {
	t := llamaLike
	t.qk = qkFull
	t.experts = optionally(mixtral)
	return t.build(f)
}

// gpt2Like is the classic: two norms with shift, biases everywhere, learned positions, tied head.
func gpt2Like(f *fields) *Model {
	return traits{norms: 2, normWidth: 2, plain: true, qkvBias: true, outBias: true, mlpBias: true, position: true, tied: true}.build(f)
}

func gptBigCode(f *fields) *Model {
	if !f.has("multi_query") {
		f.c = withField(f.c, "multi_query", true)
	}
	return gpt2Like(f)
}

func gptNeo(f *fields) *Model {
	return traits{norms: 2, normWidth: 2, plain: true, outBias: true, mlpBias: true, position: true, tied: true, pattern: 2}.build(f)
}

func gptJ(f *fields) *Model {
	return traits{norms: 1, normWidth: 2, plain: true, mlpBias: true, headBias: true}.build(f)
}

func gptNeoX(f *fields) *Model {
	bias := f.flag(true, "attention_bias")
	return traits{norms: 2, normWidth: 2, plain: true, qkvBias: bias, outBias: bias, mlpBias: true}.build(f)
}

func bloom(f *fields) *Model {
	return traits{norms: 2, normWidth: 2, plain: true, qkvBias: true, outBias: true, mlpBias: true, embedNorm: true, tied: true}.build(f)
}

// opt may have embeddings narrower than its layers, with projections in and out.
func opt(f *fields) *Model {
	bias := f.flag(true, "enable_bias")
	m := traits{
		norms: 2, normWidth: 2, plain: true, qkvBias: bias, outBias: bias, mlpBias: bias, position: true, posExtra: 2,
		tied: true, noFinal: !f.flag(true, "do_layer_norm_before") || f.flag(false, "_remove_final_layer_norm"),
	}.build(f)
	if narrow := f.count("word_embed_proj_dim"); narrow > 0 && narrow != m.Hidden {
		for i := range m.Tensors {
			if m.Tensors[i].Role == Embedding || m.Tensors[i].Role == Head {
				m.Tensors[i].Count = m.Vocab * narrow
			}
		}
		m.add(Position, false, 2*narrow*m.Hidden)
	}
	return m
}

// falcon: one norm when attention and feed-forward run side by side, two in the newer decoder and in the serial one.
func falcon(f *fields) *Model {
	heads := f.count("num_attention_heads", "n_head")
	groups := f.or(0, "num_key_value_heads", "num_kv_heads", "n_head_kv")
	newer := f.flag(groups > 1 && groups < heads, "new_decoder_architecture")
	c := f.c
	switch {
	case newer && groups == 0:
		c = withField(c, "num_key_value_heads", float64(heads))
	case !newer && f.flag(groups <= 1, "multi_query"):
		c = withField(c, "num_key_value_heads", 1.0)
	case !newer:
		c = withField(c, "num_key_value_heads", float64(heads))
	}
	f.c = c
	norms := int64(1)
	if newer && f.or(2, "num_ln_in_parallel_attn") == 2 || !newer && !f.flag(true, "parallel_attn") {
		norms = 2
	}
	bias := f.flag(false, "bias")
	return traits{norms: norms, normWidth: 2, plain: true, tied: true, qkvBias: bias, outBias: bias, mlpBias: bias}.build(f)
}

// mpt and dbrx keep attention's fields in attn_config.
func mpt(f *fields) *Model {
	bias := !f.flag(true, "no_bias")
	c := withField(f.c, "intermediate_size", f.real(4, "expansion_ratio")*f.real(0, "d_model", "hidden_size"))
	if kv := f.within("attn_config").count("kv_n_heads"); kv > 0 {
		c = withField(c, "num_key_value_heads", float64(kv))
	}
	f.c = c
	width := int64(1)
	if bias {
		width = 2
	}
	return traits{norms: 2, normWidth: width, plain: true, tied: true, qkvBias: bias, outBias: bias, mlpBias: bias}.build(f)
}

func dbrx(f *fields) *Model {
	attn, ffn := f.within("attn_config"), f.within("ffn_config")
	c := withField(f.c, "num_key_value_heads", float64(max(1, attn.or(f.or(1, "num_key_value_heads"), "kv_n_heads"))))
	for from, to := range map[string]string{"ffn_hidden_size": "intermediate_size", "moe_num_experts": "num_local_experts", "moe_top_k": "num_experts_per_tok"} {
		if n := ffn.count(from); n > 0 {
			c = withField(c, to, float64(n))
		}
	}
	f.c = c
	return llamaLike.with(func(t *traits) { t.experts = mixtral }).build(f)
}

// qwen1 counts both halves of its gated feed-forward in intermediate_size.
func qwen1(f *fields) *Model {
	f.c = withField(f.c, "intermediate_size", float64(f.need("intermediate_size")/2))
	return llamaLike.with(func(t *traits) { t.qkvBias = true }).build(f)
}

func withField(c Config, name string, value any) Config {
	out := make(Config, len(c)+1)
	for k, v := range c {
		out[k] = v
	}
	out[name] = value
	return out
}
