package model

import "strings"

// conv is a convolution with bias.
func conv(in, out, kernel int64) int64 { return in*out*kernel*kernel + out }

// linear is a linear layer with bias.
func linear(in, out int64) int64 { return in*out + out }

// resnet is a residual block; time is the width of the time embedding, 0 in an autoencoder.
func resnet(in, out, time int64) int64 {
	n := 2*in + conv(in, out, 3) + 2*out + conv(out, out, 3)
	if time > 0 {
		n += linear(time, out)
	}
	if in != out {
		n += conv(in, out, 1)
	}
	return n
}

// spatialTransformer attends within the picture and to the text.
func spatialTransformer(channels, cross, depth int64) int64 {
	block := 6*channels + 3*channels*channels + linear(channels, channels) +
		channels*channels + 2*cross*channels + linear(channels, channels) +
		linear(channels, 8*channels) + linear(4*channels, channels)
	return 2*channels + 2*linear(channels, channels) + depth*block
}

// unet is the U of Stable Diffusion: down, middle, up, with skips.
type unet struct {
	widths, depths, layers []int64
	down, up               []bool // whether the block attends
	cross, time            int64
}

func readUNet(f *fields) (unet, bool) {
	u := unet{widths: f.counts("block_out_channels"), cross: f.or(1280, "cross_attention_dim")}
	if len(u.widths) == 0 || len(u.widths) > 64 {
		f.fail("%sblock_out_channels is missing or absurd", f.prefix)
		return u, false
	}
	for _, w := range u.widths {
		if w == 0 || w > 1<<14 {
			f.fail("%sblock_out_channels: %d is absurd", f.prefix, w)
			return u, false
		}
	}
	n := len(u.widths)
	u.depths = spread(f.counts("transformer_layers_per_block"), n, 1)
	u.layers = spread(f.counts("layers_per_block"), n, 2)
	u.down, u.up = attends(f, "down_block_types", n), attends(f, "up_block_types", n)
	u.time = 4 * u.widths[0]
	for i := range n {
		if u.depths[i] > 100 || u.layers[i] > 100 {
			f.fail("%slayers_per_block: absurd", f.prefix)
			return u, false
		}
	}
	return u, true
}

// spread repeats one number for every block.
func spread(list []int64, n int, def int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		switch {
		case i < len(list):
			out[i] = list[i]
		case len(list) > 0:
			out[i] = list[len(list)-1]
		default:
			out[i] = def
		}
	}
	return out
}

// attends: CrossAttn blocks do; when the config is silent, all but the narrowest picture do.
func attends(f *fields, name string, n int) []bool {
	out := make([]bool, n)
	kinds, _ := f.c[name].([]any)
	for i := range out {
		if i < len(kinds) {
			kind, _ := kinds[i].(string)
			out[i] = strings.Contains(kind, "CrossAttn")
			continue
		}
		if name == "down_block_types" {
			out[i] = i < n-1
		} else {
			out[i] = i > 0
		}
	}
	return out
}

func unetModel(f *fields) *Model {
	m := &Model{Kind: Diffusion, ImageSize: f.or(64, "sample_size")}
	u, ok := readUNet(f)
	if !ok {
		return m
	}
	c0 := u.widths[0]
	n := conv(f.or(4, "in_channels"), c0, 3) + linear(c0, u.time) + linear(u.time, u.time)
	if f.text("addition_embed_type") == "text_time" {
		n += linear(f.need("projection_class_embeddings_input_dim"), u.time) + linear(u.time, u.time)
	}
	n += u.downPath() + u.middle() + u.upPath()
	n += 2*c0 + conv(c0, f.or(4, "out_channels"), 3)
	m.add(Convolution, false, n)
	m.Hidden, m.Layers = u.widths[len(u.widths)-1], int64(len(u.widths))
	m.Intermediate = 8 * c0
	m.LargestLayer = u.middle()
	return m
}

func (u unet) downPath() int64 {
	var n int64
	in := u.widths[0]
	for i, out := range u.widths {
		for range u.layers[i] {
			n += resnet(in, out, u.time)
			if u.down[i] {
				n += spatialTransformer(out, u.cross, u.depths[i])
			}
			in = out
		}
		if i < len(u.widths)-1 {
			n += conv(out, out, 3)
		}
	}
	return n
}

func (u unet) middle() int64 {
	last := len(u.widths) - 1
	w := u.widths[last]
	return 2*resnet(w, w, u.time) + spatialTransformer(w, u.cross, u.depths[last])
}

func (u unet) upPath() int64 {
	var n int64
	last := len(u.widths) - 1
	prev := u.widths[last]
	for i := range u.widths {
		at := last - i
		out, skip := u.widths[at], u.widths[max(0, at-1)]
		layers := u.layers[at] + 1
		for j := range layers {
			side := out
			if j == layers-1 {
				side = skip
			}
			n += resnet(prev+side, out, u.time)
			if u.up[i] {
				n += spatialTransformer(out, u.cross, u.depths[at])
			}
			prev = out
		}
		if i < last {
			n += conv(out, out, 3)
		}
	}
	return n
}

// autoencoder is the VAE of a diffusion pipeline.
func autoencoder(f *fields) *Model {
	m := &Model{Kind: Diffusion, ImageSize: f.or(512, "sample_size")}
	u, ok := readUNet(f)
	if !ok {
		return m
	}
	last := len(u.widths) - 1
	c0, wide, latent := u.widths[0], u.widths[last], f.or(4, "latent_channels")
	mid := 2*resnet(wide, wide, 0) + 2*wide + 4*linear(wide, wide)
	n := conv(f.or(3, "in_channels"), c0, 3) + 2*mid
	in := c0
	for i, out := range u.widths {
		for range u.layers[i] {
			n += resnet(in, out, 0)
			in = out
		}
		if i < last {
			n += conv(out, out, 3)
		}
	}
	n += 2*wide + conv(wide, 2*latent, 3) + conv(latent, wide, 3)
	in = wide
	for at := last; at >= 0; at-- {
		for range u.layers[at] + 1 {
			n += resnet(in, u.widths[at], 0)
			in = u.widths[at]
		}
		if at > 0 {
			n += conv(in, in, 3)
		}
	}
	n += 2*c0 + conv(c0, f.or(3, "out_channels"), 3)
	if f.flag(true, "use_quant_conv") {
		n += conv(2*latent, 2*latent, 1)
	}
	if f.flag(true, "use_post_quant_conv") {
		n += conv(latent, latent, 1)
	}
	m.add(Convolution, false, n)
	m.Hidden, m.Layers, m.Intermediate = wide, int64(len(u.widths)), 4*c0
	return m
}

// transformerSizes are the fields all diffusion transformers share.
func transformerSizes(f *fields) (inner, head int64) {
	heads := f.need("num_attention_heads")
	head = f.need("attention_head_dim")
	if heads > maxHeads || head*heads > maxDim {
		f.fail("%snum_attention_heads %d, attention_head_dim %d: absurd", f.prefix, heads, head)
	}
	return heads * head, head
}

// flux: blocks with two streams, then blocks with one.
func flux(f *fields) *Model {
	d, head := transformerSizes(f)
	double, single := f.or(19, "num_layers"), f.or(38, "num_single_layers")
	if double > maxLayers || single > maxLayers {
		f.fail("%snum_layers %d: absurd", f.prefix, double)
	}
	in := f.or(64, "in_channels")
	embed := linear(256, d) + linear(d, d)
	n := embed + linear(f.or(768, "pooled_projection_dim"), d) + linear(d, d) + linear(f.or(4096, "joint_attention_dim"), d) + linear(in, d)
	if f.flag(false, "guidance_embeds") {
		n += embed
	}
	n += linear(d, 2*d) + linear(d, f.or(in, "out_channels"))
	m := &Model{Kind: Diffusion, Hidden: d, Layers: double + single, Heads: d / max(1, head), Intermediate: 4 * d, ImageSize: f.or(128, "sample_size")}
	m.add(MLP, false, n)
	one := 2*linear(d, 6*d) + 8*linear(d, d) + 4*head + 2*(linear(d, 4*d)+linear(4*d, d))
	m.add(Attention, true, double*one)
	m.add(Attention, true, single*(linear(d, 3*d)+linear(d, 4*d)+linear(5*d, d)+3*linear(d, d)+2*head))
	m.LargestLayer = one
	return m
}

// sd3: two streams in every block; the last one drops the text.
func sd3(f *fields) *Model {
	d, head := transformerSizes(f)
	layers := f.need("num_layers")
	if layers > maxLayers {
		f.fail("%snum_layers %d: absurd", f.prefix, layers)
	}
	patch := f.or(2, "patch_size")
	n := conv(f.or(16, "in_channels"), d, patch) + linear(256, d) + linear(d, d)
	n += linear(f.or(2048, "pooled_projection_dim"), d) + linear(d, d) + linear(f.or(4096, "joint_attention_dim"), f.or(d, "caption_projection_dim"))
	n += linear(d, 2*d) + linear(d, patch*patch*f.or(16, "out_channels"))
	feed := linear(d, 4*d) + linear(4*d, d)
	block := 2*linear(d, 6*d) + 8*linear(d, d) + 2*feed
	qk := int64(0)
	if f.text("qk_norm") != "" {
		qk = 2 * head
		block += 2 * qk
	}
	m := &Model{Kind: Diffusion, Hidden: d, Layers: layers, Heads: d / max(1, head), Intermediate: 4 * d, ImageSize: f.or(128, "sample_size")}
	m.add(MLP, false, n)
	m.add(Attention, true, layers*block-4*d*(d+1)-linear(d, d)-feed) // the last block's text side
	m.add(Attention, true, int64(len(f.counts("dual_attention_layers")))*(3*d*(d+1)+4*linear(d, d)+qk))
	m.LargestLayer = block
	return m
}
