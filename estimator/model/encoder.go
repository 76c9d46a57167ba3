package model

// block is one classic transformer layer: attention with a bias on all four linears, a feed-forward of two matrices
// with biases, two norms with shift.
func (m *Model) block(n, hidden, inter int64, role Role) {
	attn, feed := role, role
	if role == Attention {
		feed = MLP
	}
	m.add(attn, true, n*4*hidden*hidden)
	m.add(feed, true, n*2*hidden*inter)
	m.add(biasOf(role), true, n*(4*hidden+inter+hidden))
	m.add(normOf(role), true, n*4*hidden)
	m.LargestLayer = max(m.LargestLayer, 4*hidden*hidden+2*hidden*inter+9*hidden+inter)
}

func biasOf(role Role) Role {
	if role == Tower {
		return Tower
	}
	return Bias
}

func normOf(role Role) Role {
	if role == Tower {
		return Tower
	}
	return Norm
}

// newPlain reads what every encoder has.
func newPlain(f *fields, kind Kind) *Model {
	m := &Model{
		Kind:   kind,
		Hidden: f.need("hidden_size", "d_model", "dim", "n_embd"),
		Layers: f.need("num_hidden_layers", "n_layers", "num_layers", "n_layer"),
		Heads:  f.need("num_attention_heads", "n_heads", "num_heads", "n_head"),
	}
	m.Intermediate = f.or(4*m.Hidden, "intermediate_size", "hidden_dim", "ffn_dim", "n_inner")
	if m.Layers > maxLayers || m.Hidden > maxDim || m.Intermediate > 4*maxDim {
		f.fail("%snum_hidden_layers %d, hidden_size %d: absurd", f.prefix, m.Layers, m.Hidden)
	}
	if m.Heads > maxHeads || m.Hidden%m.Heads != 0 {
		f.fail("%shidden_size %d is not a multiple of num_attention_heads %d", f.prefix, m.Hidden, m.Heads)
	}
	return m
}

// bert is the encoder with its pooler.
func bert(f *fields) *Model {
	m := newPlain(f, Encoder)
	m.Vocab = f.need("vocab_size")
	m.MaxPositions = f.or(512, "max_position_embeddings")
	h := m.Hidden
	m.add(Embedding, false, m.Vocab*h)
	m.add(Position, false, (m.MaxPositions+f.or(2, "type_vocab_size"))*h)
	m.add(Norm, false, 2*h)
	m.block(m.Layers, h, m.Intermediate, Attention)
	m.add(Attention, false, h*h+h) // pooler
	return m
}

func roberta(f *fields) *Model {
	c := withField(f.c, "type_vocab_size", float64(f.or(1, "type_vocab_size")))
	f.c = withField(c, "max_position_embeddings", float64(f.or(514, "max_position_embeddings"))) // two before the first
	return bert(f)
}

func distilbert(f *fields) *Model {
	m := newPlain(f, Encoder)
	m.Vocab, m.MaxPositions = f.need("vocab_size"), f.or(512, "max_position_embeddings")
	m.add(Embedding, false, m.Vocab*m.Hidden)
	m.add(Position, false, m.MaxPositions*m.Hidden)
	m.add(Norm, false, 2*m.Hidden)
	m.block(m.Layers, m.Hidden, m.Intermediate, Attention)
	return m
}

// albert shares one layer's weights among all.
func albert(f *fields) *Model {
	m := newPlain(f, Encoder)
	m.Vocab, m.MaxPositions = f.need("vocab_size"), f.or(512, "max_position_embeddings")
	e := f.or(m.Hidden, "embedding_size")
	m.add(Embedding, false, m.Vocab*e)
	m.add(Position, false, (m.MaxPositions+f.or(2, "type_vocab_size"))*e)
	m.add(Norm, false, 2*e)
	m.add(Attention, false, e*m.Hidden+m.Hidden)
	m.block(f.or(1, "num_hidden_groups"), m.Hidden, m.Intermediate, Attention)
	m.add(Attention, false, m.Hidden*m.Hidden+m.Hidden)
	return m
}

func debertaV2(f *fields) *Model {
	m := newPlain(f, Encoder)
	m.Vocab, m.MaxPositions = f.need("vocab_size"), f.or(512, "max_position_embeddings")
	h := m.Hidden
	m.add(Embedding, false, m.Vocab*h)
	m.add(Norm, false, 2*h)
	if f.flag(true, "position_biased_input") {
		m.add(Position, false, m.MaxPositions*h)
	}
	if n := f.count("type_vocab_size"); n > 0 {
		m.add(Position, false, n*h)
	}
	m.block(m.Layers, h, m.Intermediate, Attention)
	if f.flag(false, "relative_attention") {
		buckets := f.or(0, "position_buckets")
		if buckets == 0 {
			buckets = m.MaxPositions
		}
		m.add(Position, false, 2*buckets*h)
		if !f.flag(false, "share_att_key") {
			m.add(Attention, true, m.Layers*(2*h*h+h))
		}
		m.add(Norm, false, 2*h)
	}
	return m
}

// modernBERT: no biases, a gated feed-forward, the first layer without an attention norm.
func modernBERT(f *fields) *Model {
	m := newPlain(f, Encoder)
	m.Vocab, m.MaxPositions, m.Gated = f.need("vocab_size"), f.or(8192, "max_position_embeddings"), true
	h := m.Hidden
	m.add(Embedding, false, m.Vocab*h)
	m.add(Attention, true, m.Layers*4*h*h)
	m.add(MLP, true, m.Layers*3*h*m.Intermediate)
	m.add(Norm, true, (2*m.Layers-1)*h)
	m.add(Norm, false, 2*h)
	m.LargestLayer = 4*h*h + 3*h*m.Intermediate
	return m
}

func nomicBERT(f *fields) *Model {
	m := newPlain(f, Encoder)
	m.Vocab, m.MaxPositions, m.Gated = f.need("vocab_size"), f.or(8192, "n_positions"), true
	h := m.Hidden
	m.add(Embedding, false, m.Vocab*h)
	m.add(Position, false, f.or(2, "type_vocab_size")*h)
	m.add(Norm, false, 2*h)
	m.add(Attention, true, m.Layers*4*h*h)
	m.add(MLP, true, m.Layers*3*h*m.Intermediate)
	m.add(Norm, true, m.Layers*4*h)
	m.LargestLayer = 4*h*h + 3*h*m.Intermediate
	return m
}
