package model

// language builds the text model of a multimodal config.
func language(f *fields, fallback string) *Model {
	text := f.within("text_config", "llm_config", "language_config")
	if len(text.c) == 0 {
		text = f
	}
	kind := text.text("model_type")
	if kind == "" || kind == f.text("model_type") {
		kind = fallback
	}
	if !text.has("tie_word_embeddings") && f.has("tie_word_embeddings") {
		text.c = withField(text.c, "tie_word_embeddings", f.c["tie_word_embeddings"])
	}
	if read, ok := readers[kind]; ok {
		return read(text)
	}
	f.fail("text_config.model_type %q is not known", kind)
	return &Model{}
}

func gemma3(f *fields) *Model {
	text := f.within("text_config")
	c := text.c
	// the class's own defaults: published configs leave them out
	for name, value := range map[string]float64{"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072, "sliding_window": 4096, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26} {
		if _, ok := c[name]; !ok {
			c = withField(c, name, value)
		}
	}
	text.c = c
	m := gemma3Text(text)
	tower := readTower(f.within("vision_config"), siglipVisionDefaults)
	m.addSigLIP(tower, f.within("vision_config").flag(true, "vision_use_head"))
	m.add(Tower, false, tower.hidden*m.Hidden+tower.hidden)
	return m
}

func paligemma(f *fields) *Model {
	m := language(f, "gemma")
	tower := readTower(f.within("vision_config"), siglipVisionDefaults)
	m.addSigLIP(tower, f.within("vision_config").flag(true, "vision_use_head"))
	m.add(Tower, false, tower.hidden*m.Hidden+m.Hidden)
	return m
}

func llava(f *fields) *Model {
	m := language(f, "llama")
	vision := f.within("vision_config")
	var wide int64
	switch vision.text("model_type") {
	case "siglip_vision_model":
		t := readTower(vision, siglipVisionDefaults)
		m.addSigLIP(t, vision.flag(true, "vision_use_head"))
		wide = t.hidden
	case "pixtral":
		wide = m.addPixtral(vision)
	default:
		t := readTower(vision, clipVisionDefaults)
		m.addCLIP(t)
		wide = t.hidden
	}
	m.add(Tower, false, wide*m.Hidden+m.Hidden*m.Hidden)
	if f.flag(true, "multimodal_projector_bias") {
		m.add(Tower, false, 2*m.Hidden)
	}
	if f.text("model_type") == "llava_next" {
		m.add(Tower, false, m.Hidden) // the newline between rows of a picture
		m.TowerTokens *= 5
	}
	return m
}

func (m *Model) addPixtral(f *fields) int64 {
	t := readTower(f, imageTower{hidden: 1024, layers: 24, inter: 4096, patch: 16, side: 1024})
	m.TowerTokens, m.TowerHidden = t.patches(), t.hidden
	m.add(Tower, false, t.channels*t.patch*t.patch*t.hidden+t.hidden)
	m.add(Tower, true, t.layers*(4*t.hidden*t.hidden+3*t.hidden*t.inter+2*t.hidden))
	return t.hidden
}

func mistral3(f *fields) *Model {
	m := language(f, "mistral")
	wide := m.addPixtral(f.within("vision_config"))
	merge := f.or(2, "spatial_merge_size")
	m.add(Tower, false, wide+wide*merge*merge*wide+wide*m.Hidden+m.Hidden*m.Hidden)
	if f.flag(false, "multimodal_projector_bias") {
		m.add(Tower, false, 2*m.Hidden)
	}
	return m
}

// qwenTower are the fields the three Qwen vision towers share.
type qwenTower struct{ hidden, depth, inter, patchVolume, merged, out int64 }

func readQwenTower(f *fields, m *Model) qwenTower {
	t := qwenTower{hidden: f.or(1280, "embed_dim", "hidden_size"), depth: f.or(32, "depth")}
	patch, merge := f.or(14, "patch_size"), f.or(2, "spatial_merge_size")
	t.inter = f.or(int64(f.real(4, "mlp_ratio")*float64(t.hidden)), "intermediate_size")
	t.patchVolume = f.or(3, "in_channels", "in_chans") * f.or(2, "temporal_patch_size") * patch * patch * t.hidden
	t.merged = t.hidden * merge * merge
	t.out = f.or(m.Hidden, "out_hidden_size")
	if t.depth > maxLayers || t.hidden > maxDim || patch > 1024 || merge > 64 || t.inter > 4*maxDim {
		f.fail("%sdepth %d, hidden size %d: absurd", f.prefix, t.depth, t.hidden)
	}
	m.TowerTokens, m.TowerHidden = 16384, t.hidden
	return t
}

func qwen2VL(f *fields) *Model {
	m := language(f, "qwen2")
	t := readQwenTower(f.within("vision_config"), m)
	m.add(Tower, false, t.patchVolume)
	m.block(t.depth, t.hidden, t.inter, Tower)
	m.add(Tower, false, 2*t.hidden+t.merged*t.merged+t.merged+t.merged*m.Hidden+m.Hidden)
	return m
}

func qwen25VL(f *fields) *Model {
	m := language(f, "qwen2")
	vision := f.within("vision_config")
	if !vision.has("intermediate_size") {
		vision.c = withField(vision.c, "intermediate_size", 3420.0)
	}
	t := readQwenTower(vision, m)
	h := t.hidden
	m.add(Tower, false, t.patchVolume)
	m.add(Tower, true, t.depth*(2*h+4*h*h+4*h+3*h*t.inter+2*t.inter+h))
	m.add(Tower, false, h+t.merged*t.merged+t.merged+t.merged*t.out+t.out)
	return m
}

func qwen3VL(f *fields) *Model {
	m := language(f, "qwen3")
	vision := f.within("vision_config")
	t := readQwenTower(vision, m)
	h := t.hidden
	m.add(Tower, false, t.patchVolume+h+vision.or(2304, "num_position_embeddings")*h)
	m.block(t.depth, h, t.inter, Tower)
	merger := t.merged*t.merged + t.merged + t.merged*t.out + t.out
	deep := int64(len(vision.counts("deepstack_visual_indexes")))
	m.add(Tower, false, 2*h+merger+deep*(2*t.merged+merger))
	return m
}

func llama4Text(f *fields) *Model {
	return llamaLike.with(func(t *traits) { t.experts, t.pattern = llama4Mixture, 4 }).build(f)
}

func llama4(f *fields) *Model {
	text := f.within("text_config")
	if len(text.c) == 0 {
		return llama4Text(f)
	}
	m := llama4Text(text)
	vision := f.within("vision_config")
	if len(vision.c) == 0 {
		return m
	}
	t := readTower(vision, imageTower{hidden: 1408, layers: 34, inter: 5632, patch: 14, side: 336})
	m.addCLIP(t)
	in, out := vision.or(4096, "projector_input_dim"), vision.or(4096, "projector_output_dim")
	shuffled := t.inter // pixel shuffle folds 4 patches of hidden into one
	m.add(Tower, false, shuffled*in+in*out+vision.or(4096, "vision_output_dim")*m.Hidden)
	return m
}
