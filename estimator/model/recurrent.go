package model

// mamba keeps a state of fixed size per sequence instead of a KV cache.
func mamba(f *fields) *Model {
	m := &Model{Kind: Recurrent, Hidden: f.need("hidden_size", "d_model"), Layers: f.need("num_hidden_layers", "n_layer"), Vocab: f.need("vocab_size")}
	if m.Layers > maxLayers || m.Hidden > maxDim {
		f.fail("%snum_hidden_layers %d: absurd", f.prefix, m.Layers)
	}
	if !f.has("hidden_size") { // the first checkpoints pad their vocabulary
		pad := f.or(8, "pad_vocab_size_multiple")
		m.Vocab = (m.Vocab + pad - 1) / max(1, pad) * pad
	}
	h := m.Hidden
	inner := f.or(f.or(2, "expand")*h, "intermediate_size", "d_inner")
	state, kernel := f.or(16, "state_size", "d_state"), f.or(4, "conv_kernel", "d_conv")
	if inner > maxDim || state > 1<<12 || kernel > 1<<12 {
		f.fail("%sexpand %d, state_size %d: absurd", f.prefix, inner/h, state)
	}
	rank := (h + 15) / 16
	if n, ok := toFloat(f.c["time_step_rank"]); ok && n > 0 {
		rank = f.count("time_step_rank")
	}
	m.Tied, m.Intermediate = f.flag(true, "tie_word_embeddings", "tie_embeddings"), inner
	m.add(Embedding, false, m.Vocab*h)
	if !m.Tied {
		m.add(Head, false, m.Vocab*h)
	}
	layer := h*2*inner + inner*kernel + inner + inner*(rank+2*state) + linear(rank, inner) + inner*state + inner + inner*h
	m.add(Attention, true, m.Layers*layer)
	m.add(Norm, true, m.Layers*h)
	m.add(Norm, false, h)
	m.LargestLayer = layer
	m.KV = KV{State: m.Layers * inner * (state + kernel)}
	return m
}
