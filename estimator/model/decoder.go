package model

import "strings"

// qkNorm says which vectors an architecture norms queries and keys with.
type qkNorm int

const (
	qkNone qkNorm = iota
	qkHead        // one vector of head_dim for all heads
	qkFull        // over all heads
)

// traits are what an architecture of decoder is built of, beside the sizes in its config.
type traits struct {
	norms     int64 // per layer
	normWidth int64 // vectors per norm: 1 scale, 2 scale and shift, 0 neither
	noFinal   bool  // no norm after the last layer
	embedNorm bool
	qk        qkNorm

	qkvBias, outBias, mlpBias, headBias bool

	plain    bool // feed-forward of two matrices, not three
	position bool // learned positions
	posExtra int64
	untied   bool // default when the config is silent
	tied     bool
	sinks    bool // a learned logit per head
	experts  func(*fields, *shape)
	pattern  int64 // every nth layer keeps all tokens; 0: the config says
	allSlide bool  // a window in the config means every layer
}

// shape are a decoder's sizes as read.
type shape struct {
	hidden, layers, heads, kvHeads, headDim, vDim, inter, vocab, maxPos int64
	tied                                                                bool
	// mixture
	experts, topK, expertInter, sharedInter, moeLayers, denseInter int64
	sharedGate, routerBias, expertBias, routerCorrection           bool
	// latent attention
	kvRank, qRank, nope, rope int64
}

// layerCounts bounds what makes sense; an absurd config is an error, not a giant.
const (
	maxLayers  = 2000
	maxHeads   = 2048
	maxDim     = 1 << 18
	maxExperts = 1 << 13
)

func readShape(f *fields, t traits) shape {
	s := shape{
		hidden: f.need("hidden_size", "n_embd", "d_model", "dim", "model_dim"),
		layers: f.need("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
		heads:  f.need("num_attention_heads", "n_head", "n_heads", "num_heads"),
		vocab:  f.need("padded_vocab_size", "vocab_size"),
		maxPos: f.count("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx", "max_sequence_length"),
	}
	s.kvHeads = f.or(s.heads, "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "n_kv_heads", "multi_query_group_num")
	if f.flag(false, "multi_query") && !f.has("num_kv_heads") && !f.has("n_head_kv") && !f.has("num_key_value_heads") {
		s.kvHeads = 1
	}
	s.headDim = f.or(0, "head_dim", "kv_channels", "attention_head_dim", "d_kv", "key_size")
	s.inter = f.or(0, "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff", "inner_dim")
	s.check(f)
	if s.headDim == 0 {
		s.headDim = s.hidden / max(1, s.heads)
	}
	s.vDim = s.headDim
	s.tied = f.flag(t.tied && !t.untied, "tie_word_embeddings", "tie_embeddings")
	return s
}

func (s *shape) check(f *fields) {
	if s.kvHeads == 0 {
		f.fail("%snum_key_value_heads is 0", f.prefix)
		s.kvHeads = 1
	}
	switch {
	case s.layers > maxLayers:
		f.fail("%snum_hidden_layers: %d is absurd (at most %d)", f.prefix, s.layers, maxLayers)
	case s.heads > maxHeads:
		f.fail("%snum_attention_heads: %d is absurd (at most %d)", f.prefix, s.heads, maxHeads)
	case s.heads%s.kvHeads != 0:
		f.fail("%snum_attention_heads %d is not a multiple of num_key_value_heads %d", f.prefix, s.heads, s.kvHeads)
	case s.headDim == 0 && s.hidden%s.heads != 0:
		f.fail("%shidden_size %d is not a multiple of num_attention_heads %d, and head_dim is missing", f.prefix, s.hidden, s.heads)
	}
}

// build turns an architecture's traits and a config's sizes into tensors.
func (t traits) build(f *fields) *Model {
	s := readShape(f, t)
	if s.inter == 0 && t.experts == nil {
		if !t.plain {
			f.fail("%sintermediate_size is missing", f.prefix)
		}
		s.inter = 4 * s.hidden
	}
	readLatent(f, &s)
	if t.experts != nil {
		t.experts(f, &s)
		if s.experts > maxExperts {
			f.fail("%snum_local_experts: %d is absurd (at most %d)", f.prefix, s.experts, maxExperts)
		}
		if s.experts > 0 && s.topK > s.experts {
			f.fail("%snum_experts_per_tok %d is more than the %d experts", f.prefix, s.topK, s.experts)
		}
	}
	m := &Model{
		Kind: Decoder, Hidden: s.hidden, Layers: s.layers, Heads: s.heads, Vocab: s.vocab, MaxPositions: s.maxPos,
		Tied: s.tied, Gated: !t.plain, Intermediate: max(s.inter, s.expertInter*max(1, s.topK)+s.sharedInter),
		Experts: s.experts, TopK: s.topK,
	}
	t.embed(m, s)
	attention := t.attention(m, s)
	feed := t.feed(m, s)
	norms := t.norms*t.normWidth*s.hidden + t.qkVectors(s)
	m.add(Norm, true, norms*s.layers)
	m.LargestLayer = attention + feed + norms
	m.KV = t.cache(f, s)
	return m
}

func (t traits) embed(m *Model, s shape) {
	m.add(Embedding, false, s.vocab*s.hidden)
	if !s.tied {
		m.add(Head, false, s.vocab*s.hidden)
	}
	if t.headBias {
		m.add(Bias, false, s.vocab)
	}
	if t.position {
		m.add(Position, false, (s.maxPos+t.posExtra)*s.hidden)
	}
	if t.embedNorm {
		m.add(Norm, false, t.normWidth*s.hidden)
	}
	if !t.noFinal {
		m.add(Norm, false, t.normWidth*s.hidden)
	}
}

func (t traits) qkVectors(s shape) int64 {
	switch t.qk {
	case qkHead:
		return 2 * s.headDim
	case qkFull:
		return (s.heads + s.kvHeads) * s.headDim
	case qkNone:
	}
	return 0
}

// attention adds the attention of all layers and returns one layer's count.
func (t traits) attention(m *Model, s shape) int64 {
	if s.kvRank > 0 {
		return latentAttention(m, s)
	}
	q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
	one := 2 * s.hidden * q
	two := 2 * s.hidden * kv
	m.add(Attention, true, one*s.layers)
	m.add(KVProjection, true, two*s.layers)
	bias := int64(0)
	if t.qkvBias {
		bias += q + 2*kv
	}
	if t.outBias {
		bias += s.hidden
	}
	if t.sinks {
		bias += s.heads
	}
	m.add(Bias, true, bias*s.layers)
	return one + two + bias
}

// matrices of a feed-forward.
func (t traits) matrices() int64 {
	if t.plain {
		return 2
	}
	return 3
}

// feed adds the feed-forwards of all layers and returns the largest layer's count.
func (t traits) feed(m *Model, s shape) int64 {
	dense := s.layers - s.moeLayers
	width := s.inter
	if s.denseInter > 0 {
		width = s.denseInter
	}
	one := t.matrices() * s.hidden * width
	m.add(MLP, true, one*dense)
	if t.mlpBias {
		bias := (t.matrices()-1)*width + s.hidden
		m.add(Bias, true, bias*dense)
		one += bias
	}
	if s.moeLayers == 0 {
		return one
	}
	expert := t.matrices() * s.hidden * s.expertInter * s.experts
	m.add(Expert, true, expert*s.moeLayers)
	if s.expertBias {
		bias := ((t.matrices()-1)*s.expertInter + s.hidden) * s.experts
		m.add(ExpertBias, true, bias*s.moeLayers)
		expert += bias
	}
	m.add(SharedExpert, true, t.matrices()*s.hidden*s.sharedInter*s.moeLayers)
	router := s.hidden * s.experts
	if s.routerBias || s.routerCorrection {
		router += s.experts
	}
	if s.sharedGate && s.sharedInter > 0 {
		router += s.hidden
	}
	m.add(Router, true, router*s.moeLayers)
	return max(one, expert+t.matrices()*s.hidden*s.sharedInter+router)
}

// readLatent reads multi-head latent attention (MLA).
func readLatent(f *fields, s *shape) {
	s.kvRank = f.count("kv_lora_rank")
	if s.kvRank == 0 {
		return
	}
	s.qRank = f.count("q_lora_rank")
	s.nope = f.need("qk_nope_head_dim")
	s.rope = f.need("qk_rope_head_dim")
	s.vDim = f.need("v_head_dim")
}

func latentAttention(m *Model, s shape) int64 {
	qWide := s.heads * (s.nope + s.rope)
	var up, down, norms int64
	if s.qRank > 0 {
		down, up, norms = s.hidden*s.qRank, s.qRank*qWide, s.qRank
	} else {
		up = s.hidden * qWide
	}
	down += s.hidden * (s.kvRank + s.rope)
	norms += s.kvRank
	up += s.kvRank*s.heads*(s.nope+s.vDim) + s.heads*s.vDim*s.hidden
	m.add(Attention, true, up*s.layers)
	m.LatentUp = s.kvRank * s.heads * (s.nope + s.vDim) * s.layers
	m.add(LatentA, true, down*s.layers)
	m.add(Norm, true, norms*s.layers)
	return up + down + norms
}

// cache is what attention keeps, layer by layer.
func (t traits) cache(f *fields, s shape) KV {
	kv := KV{Heads: s.kvHeads, KDim: s.headDim, VDim: s.headDim, Global: s.layers}
	if s.kvRank > 0 {
		return KV{Latent: s.kvRank + s.rope, Global: s.layers}
	}
	window := f.count("sliding_window", "attention_chunk_size", "window_size")
	if window == 0 || !f.flag(true, "use_sliding_window") {
		return kv
	}
	global, known := globalLayers(f, s, t)
	if !known {
		return kv
	}
	kv.Global, kv.Window, kv.WindowSize = global, s.layers-global, window
	return kv
}

// globalLayers counts the layers that keep every token.
func globalLayers(f *fields, s shape, t traits) (int64, bool) {
	if types, ok := f.c["layer_types"].([]any); ok {
		n := int64(0)
		for _, kind := range types {
			if text, _ := kind.(string); !strings.Contains(text, "sliding") && !strings.Contains(text, "chunk") {
				n++
			}
		}
		if int64(len(types)) != s.layers {
			f.fail("%slayer_types has %d entries for %d layers", f.prefix, len(types), s.layers)
		}
		return min(n, s.layers), true
	}
	if f.has("n_global_layers") {
		return min(f.count("n_global_layers"), s.layers), true
	}
	if n := f.or(t.pattern, "sliding_window_pattern", "_sliding_window_pattern"); n > 0 {
		return s.layers / n, true
	}
	if f.has("max_window_layers") && f.flag(false, "use_sliding_window") {
		return min(f.count("max_window_layers"), s.layers), true
	}
	return 0, t.allSlide
}
