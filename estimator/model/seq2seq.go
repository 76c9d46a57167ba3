package model

import "strings"

// t5: relative positions kept once per stack, no biases, RMS norms; the newer ones have gated feed-forwards.
func t5(f *fields) *Model {
	m := &Model{Kind: Seq2Seq, Hidden: f.need("d_model", "hidden_size"), Layers: f.count("num_layers"), Heads: f.need("num_heads", "num_attention_heads"), Vocab: f.need("vocab_size")}
	if m.Layers == 0 { // a summary that counts the layers of both stacks
		m.Layers = f.need("num_hidden_layers") / 2
	}
	m.Intermediate = f.need("d_ff", "intermediate_size")
	inner := m.Heads * f.or(64, "d_kv")
	decoders := f.or(m.Layers, "num_decoder_layers")
	if m.Layers > maxLayers || decoders > maxLayers || m.Heads > maxHeads || inner > maxDim {
		f.fail("%snum_layers %d, num_heads %d: absurd", f.prefix, m.Layers, m.Heads)
	}
	m.Gated = strings.HasPrefix(f.text("feed_forward_proj"), "gated") || f.flag(false, "is_gated_act")
	m.Tied = f.flag(true, "tie_word_embeddings")
	matrices := int64(2)
	if m.Gated {
		matrices = 3
	}
	d := m.Hidden
	m.add(Embedding, false, m.Vocab*d)
	if !m.Tied {
		m.add(Head, false, m.Vocab*d)
	}
	m.add(Attention, true, 4*d*inner*(m.Layers+2*decoders))
	m.add(MLP, true, matrices*d*m.Intermediate*(m.Layers+decoders))
	m.add(Norm, true, d*(2*m.Layers+3*decoders))
	stacks := int64(2)
	if f.text("model_type") == "umt5" { // relative positions in every layer
		stacks = m.Layers + decoders
	}
	m.add(Position, false, stacks*f.or(32, "relative_attention_num_buckets")*m.Heads)
	m.add(Norm, false, 2*d)
	m.LargestLayer = 8*d*inner + matrices*d*m.Intermediate
	m.KV = KV{Global: decoders, Heads: m.Heads, KDim: inner / m.Heads, VDim: inner / m.Heads}
	m.Layers += decoders
	return m
}

// bart: two stacks with learned positions, tied to one embedding.
func bart(f *fields) *Model {
	m := &Model{Kind: Seq2Seq, Hidden: f.need("d_model", "hidden_size"), Vocab: f.need("vocab_size"), Tied: true}
	enc, dec := readStacks(f)
	ffEnc, ffDec := f.or(4*m.Hidden, "encoder_ffn_dim"), f.or(4*m.Hidden, "decoder_ffn_dim")
	m.Heads = f.need("decoder_attention_heads", "num_attention_heads")
	m.MaxPositions = f.or(1024, "max_position_embeddings")
	d := m.Hidden
	m.add(Embedding, false, m.Vocab*d)
	m.add(Position, false, 2*(m.MaxPositions+2)*d)
	m.add(Norm, false, 2*2*d) // of the embeddings
	m.twoStacks(f, stacks{enc: enc, dec: dec, ffEnc: ffEnc, ffDec: ffDec})
	if f.flag(f.text("model_type") == "mbart", "add_final_layer_norm") {
		m.add(Norm, false, 2*2*d)
	}
	return m
}

// whisper: convolutions over the spectrogram, then two stacks; keys carry no bias.
func whisper(f *fields) *Model {
	m := &Model{Kind: Seq2Seq, Hidden: f.need("d_model", "hidden_size"), Vocab: f.need("vocab_size"), Tied: true}
	enc, dec := readStacks(f)
	d := m.Hidden
	m.Heads = f.need("decoder_attention_heads", "encoder_attention_heads", "num_attention_heads")
	ffEnc, ffDec := f.or(4*d, "encoder_ffn_dim"), f.or(4*d, "decoder_ffn_dim")
	m.MaxPositions = f.or(448, "max_target_positions")
	mel := f.or(melBins(m.Vocab), "num_mel_bins")
	m.add(Convolution, false, mel*d*3+d+d*d*3+d)
	m.add(Embedding, false, m.Vocab*d)
	m.add(Position, false, (f.or(1500, "max_source_positions")+m.MaxPositions)*d)
	m.twoStacks(f, stacks{enc: enc, dec: dec, ffEnc: ffEnc, ffDec: ffDec})
	for i := range m.Tensors {
		if m.Tensors[i].Role == Bias {
			m.Tensors[i].Count -= d * (enc + 2*dec)
		}
	}
	m.add(Norm, false, 2*2*d)
	return m
}

// melBins: the vocabulary with one language more came with 128 mel bins instead of 80.
func melBins(vocab int64) int64 {
	const withCantonese = 51866
	if vocab >= withCantonese {
		return 128
	}
	return 80
}

// readStacks: the layers of encoder and decoder; a bare summary counts both in one number.
func readStacks(f *fields) (enc, dec int64) {
	enc, dec = f.count("encoder_layers"), f.count("decoder_layers")
	if enc == 0 || dec == 0 {
		both := f.count("num_hidden_layers")
		enc, dec = both/2, both-both/2
	}
	if enc == 0 || dec == 0 {
		f.fail("%sencoder_layers is missing", f.prefix)
	}
	return enc, dec
}

type stacks struct{ enc, dec, ffEnc, ffDec int64 }

// twoStacks adds an encoder and a decoder with cross attention, biases everywhere.
func (m *Model) twoStacks(f *fields, s stacks) {
	if s.enc > maxLayers || s.dec > maxLayers || m.Heads > maxHeads || m.Hidden > maxDim {
		f.fail("%sencoder_layers %d, decoder_layers %d: absurd", f.prefix, s.enc, s.dec)
	}
	d := m.Hidden
	m.block(s.enc, d, s.ffEnc, Attention)
	m.block(s.dec, d, s.ffDec, Attention)
	m.add(Attention, true, s.dec*4*d*d) // cross attention
	m.add(Bias, true, s.dec*4*d)
	m.add(Norm, true, s.dec*2*d)
	m.LargestLayer += 4 * d * d
	m.Layers, m.Intermediate = s.enc+s.dec, max(s.ffEnc, s.ffDec)
	m.KV = KV{Global: s.dec, Heads: m.Heads, KDim: d / m.Heads, VDim: d / m.Heads}
}
