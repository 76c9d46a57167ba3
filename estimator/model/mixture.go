package model

// mixtral: every layer is a mixture; intermediate_size is an expert's.
func mixtral(f *fields, s *shape) {
	s.experts = f.need("num_local_experts", "num_experts", "moe_num_experts", "n_routed_experts")
	s.topK = f.or(2, "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "num_selected_experts")
	s.expertInter = f.or(s.inter, "moe_intermediate_size", "expert_intermediate_size")
	s.moeLayers = s.layers
	if s.expertInter == 0 {
		f.fail("%sintermediate_size is missing", f.prefix)
	}
}

// optionally is a mixture only when the config names experts.
func optionally(read func(*fields, *shape)) func(*fields, *shape) {
	return func(f *fields, s *shape) {
		if f.count("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts") > 0 {
			read(f, s)
		} else if s.inter == 0 {
			f.fail("%sintermediate_size is missing", f.prefix)
		}
	}
}

// qwenMixture: some layers may stay dense, and a gated shared expert may stand beside the routed ones.
func qwenMixture(f *fields, s *shape) {
	s.experts = f.need("num_experts", "num_local_experts")
	s.topK = f.or(4, "num_experts_per_tok")
	s.expertInter = f.need("moe_intermediate_size")
	s.sharedInter = f.count("shared_expert_intermediate_size")
	s.sharedGate = s.sharedInter > 0
	dense := map[int64]bool{}
	for _, layer := range f.counts("mlp_only_layers") {
		dense[layer] = true
	}
	step := max(1, f.or(1, "decoder_sparse_step"))
	for layer := range min(s.layers, maxLayers) {
		if !dense[layer] && (layer+1)%step == 0 {
			s.moeLayers++
		}
	}
}

// deepseekMixture: the first layers stay dense; shared experts are of the same width as routed ones.
func deepseekMixture(f *fields, s *shape) {
	s.experts = f.need("n_routed_experts", "num_local_experts", "num_experts")
	s.topK = f.or(6, "num_experts_per_tok")
	s.expertInter = f.need("moe_intermediate_size")
	s.sharedInter = f.or(0, "n_shared_experts", "num_shared_experts") * s.expertInter
	step := max(1, f.or(1, "moe_layer_freq"))
	for layer := min(f.or(0, "first_k_dense_replace"), s.layers); layer < min(s.layers, maxLayers); layer++ {
		if layer%step == 0 {
			s.moeLayers++
		}
	}
}

// llama4Mixture: every nth layer is a mixture with one shared expert of the routed ones' width.
func llama4Mixture(f *fields, s *shape) {
	s.experts = f.need("num_local_experts")
	s.topK = f.or(1, "num_experts_per_tok")
	s.expertInter, s.sharedInter = s.inter, s.inter
	s.denseInter = f.or(s.inter, "intermediate_size_mlp")
	if layers := f.counts("moe_layers"); len(layers) > 0 {
		s.moeLayers = min(int64(len(layers)), s.layers)
		return
	}
	s.moeLayers = s.layers / max(1, f.or(1, "interleave_moe_layer_step"))
}

// gptOSSMixture: experts and router have biases.
func gptOSSMixture(f *fields, s *shape) {
	mixtral(f, s)
	s.routerBias, s.expertBias = true, true
}
