package model

// Bounds of what a picture can be.
const (
	maxPatch = 1 << 10
	maxSide  = 1 << 15
)

// vit is a vision transformer; its head depends on what it was saved as.
func vit(f *fields) *Model {
	m := newPlain(f, Vision)
	patch, side, channels := f.or(16, "patch_size"), f.or(224, "image_size"), f.or(3, "num_channels")
	if patch == 0 || patch > maxPatch || side > maxSide || channels > maxHeads {
		f.fail("%spatch_size %d, image_size %d: absurd", f.prefix, patch, side)
		patch, side = maxPatch, maxPatch
	}
	h := m.Hidden
	patches := (side / patch) * (side / patch)
	m.TowerTokens = patches + 1
	m.add(Convolution, false, channels*patch*patch*h+h)
	m.add(Position, false, (patches+2)*h) // positions of the patches and the class token, and that token
	m.block(m.Layers, h, m.Intermediate, Attention)
	if !f.flag(true, "qkv_bias") {
		for i := range m.Tensors {
			if m.Tensors[i].Role == Bias {
				m.Tensors[i].Count -= 3 * h * m.Layers
			}
		}
	}
	m.add(Norm, false, 2*h)
	switch classes := labels(f); {
	case f.text("model_type") == "dinov2":
		m.add(Position, false, h)       // mask token
		m.add(Norm, true, 2*h*m.Layers) // layer scale
	case classes > 0:
		m.add(Head, false, classes*h+classes)
	default:
		m.add(Attention, false, h*h+h) // pooler
	}
	return m
}

// labels of a classifier; 0 when the model was saved without one.
func labels(f *fields) int64 {
	for _, n := range []string{"num_classes", "num_labels"} {
		if f.has(n) {
			return f.count(n)
		}
	}
	if ids, ok := f.c["id2label"].(map[string]any); ok {
		return int64(len(ids))
	}
	return 0
}

// imageTower is a vision tower of classic layers: `classToken` and norms around as CLIP has them, or as SigLIP.
type imageTower struct {
	hidden, layers, inter, patch, side, channels int64
}

func readTower(f *fields, def imageTower) imageTower {
	t := imageTower{
		hidden: f.or(def.hidden, "hidden_size"), layers: f.or(def.layers, "num_hidden_layers"), inter: f.or(def.inter, "intermediate_size"),
		patch: f.or(def.patch, "patch_size"), side: f.or(def.side, "image_size"), channels: f.or(3, "num_channels"),
	}
	if t.layers > maxLayers || t.hidden > maxDim || t.inter > 4*maxDim || t.patch == 0 || t.patch > maxPatch || t.side > maxSide || t.channels > maxHeads {
		f.fail("%snum_hidden_layers %d, hidden_size %d, patch_size %d: absurd", f.prefix, t.layers, t.hidden, t.patch)
		t.patch, t.side, t.channels = maxPatch, maxPatch, 3
	}
	return t
}

func (t imageTower) patches() int64 { return (t.side / t.patch) * (t.side / t.patch) }

var (
	clipVisionDefaults   = imageTower{hidden: 768, layers: 12, inter: 3072, patch: 32, side: 224}
	siglipVisionDefaults = imageTower{hidden: 768, layers: 12, inter: 3072, patch: 16, side: 224}
)

// addCLIP: class token, patches without bias, norms before and after.
func (m *Model) addCLIP(t imageTower) {
	m.TowerTokens, m.TowerHidden = t.patches()+1, t.hidden
	m.add(Tower, false, t.channels*t.patch*t.patch*t.hidden+(t.patches()+2)*t.hidden+4*t.hidden)
	m.block(t.layers, t.hidden, t.inter, Tower)
}

// addSigLIP: no class token, patches with bias, one norm after; the pooling head when it was kept.
func (m *Model) addSigLIP(t imageTower, head bool) {
	m.TowerTokens, m.TowerHidden = t.patches(), t.hidden
	h := t.hidden
	m.add(Tower, false, t.channels*t.patch*t.patch*h+h+t.patches()*h+2*h)
	m.block(t.layers, h, t.inter, Tower)
	if head {
		m.add(Tower, false, h+4*h*h+4*h+2*h+2*h*t.inter+t.inter+h)
	}
}

// clip and siglip: two towers and what joins them.
func clip(f *fields) *Model {
	text, vision := f.within("text_config", "text_config_dict"), f.within("vision_config", "vision_config_dict")
	m := &Model{Kind: Encoder, Hidden: text.or(512, "hidden_size"), Layers: text.or(12, "num_hidden_layers"), Heads: text.or(8, "num_attention_heads"), Vocab: text.or(49408, "vocab_size")}
	m.Intermediate = text.or(2048, "intermediate_size")
	m.MaxPositions = text.or(77, "max_position_embeddings")
	tower := readTower(vision, clipVisionDefaults)
	joint := f.or(512, "projection_dim")
	m.textTower(text)
	m.addCLIP(tower)
	m.add(Tower, false, joint*(m.Hidden+tower.hidden)+1)
	return m
}

func siglip(f *fields) *Model {
	text, vision := f.within("text_config"), f.within("vision_config")
	m := &Model{Kind: Encoder, Hidden: text.or(768, "hidden_size"), Layers: text.or(12, "num_hidden_layers"), Heads: text.or(12, "num_attention_heads"), Vocab: text.or(32000, "vocab_size")}
	m.Intermediate = text.or(3072, "intermediate_size")
	m.MaxPositions = text.or(64, "max_position_embeddings")
	m.textTower(text)
	m.add(Head, false, m.Hidden*m.Hidden+m.Hidden)
	m.addSigLIP(readTower(vision, siglipVisionDefaults), vision.flag(true, "vision_use_head"))
	m.add(Tower, false, 2)
	return m
}

func (m *Model) textTower(f *fields) {
	if m.Layers > maxLayers || m.Hidden > maxDim || m.Intermediate > 4*maxDim {
		f.fail("%snum_hidden_layers %d: absurd", f.prefix, m.Layers)
	}
	m.add(Embedding, false, m.Vocab*m.Hidden)
	m.add(Position, false, m.MaxPositions*m.Hidden)
	m.block(m.Layers, m.Hidden, m.Intermediate, Attention)
	m.add(Norm, false, 2*m.Hidden)
}

// clipText is CLIP's text tower alone, as diffusion pipelines carry it.
func clipText(f *fields) *Model {
	m := newPlain(f, Encoder)
	m.Vocab, m.MaxPositions = f.or(49408, "vocab_size"), f.or(77, "max_position_embeddings")
	m.textTower(f)
	for _, a := range architectures(f.c) {
		if a == "CLIPTextModelWithProjection" {
			m.add(Head, false, m.Hidden*f.need("projection_dim"))
		}
	}
	return m
}
