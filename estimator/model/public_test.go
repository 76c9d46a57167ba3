package model

import "testing"

// Counts as published (model cards, safetensors indexes) of models that are in no table here: what the readers know
// is architecture, not models.
func TestPublishedCountsOfOtherModels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		config string
		params int64
	}{
		{"Llama-3.1-70B", `{"model_type":"llama","hidden_size":8192,"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"intermediate_size":28672,"vocab_size":128256}`, 70553706496},
		{"TinyLlama-1.1B", `{"model_type":"llama","hidden_size":2048,"num_hidden_layers":22,"num_attention_heads":32,"num_key_value_heads":4,"intermediate_size":5632,"vocab_size":32000}`, 1100048384},
		{"Mistral-Nemo", `{"model_type":"mistral","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":14336,"vocab_size":131072}`, 12247782400},
		{"gemma-2b", `{"model_type":"gemma","hidden_size":2048,"num_hidden_layers":18,"num_attention_heads":8,"num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,"vocab_size":256000}`, 2506172416},
		{"gemma-7b", `{"model_type":"gemma","hidden_size":3072,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":16,"head_dim":256,"intermediate_size":24576,"vocab_size":256000}`, 8537680896},
		{"gemma-2-2b", `{"model_type":"gemma2","hidden_size":2304,"num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"intermediate_size":9216,"vocab_size":256000}`, 2614341888},
		{"gemma-2-27b", `{"model_type":"gemma2","hidden_size":4608,"num_hidden_layers":46,"num_attention_heads":32,"num_key_value_heads":16,"head_dim":128,"intermediate_size":36864,"vocab_size":256000}`, 27227128320},
		{"gemma-3-4b-it", `{"model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024},"vision_config":{"hidden_size":1152,"image_size":896,"intermediate_size":4304,"num_attention_heads":16,"num_hidden_layers":27,"patch_size":14,"vision_use_head":false}}`, 4300079472},
		{"gemma-3-27b-it", `{"model_type":"gemma3","text_config":{"hidden_size":5376,"head_dim":128,"intermediate_size":21504,"num_attention_heads":32,"num_hidden_layers":62,"num_key_value_heads":16,"sliding_window":1024},"vision_config":{"hidden_size":1152,"image_size":896,"intermediate_size":4304,"num_attention_heads":16,"num_hidden_layers":27,"patch_size":14,"vision_use_head":false}}`, 27432406640},
		{"phi-2", `{"model_type":"phi","hidden_size":2560,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":10240,"vocab_size":51200}`, 2779683840},
		{"phi-4", `{"model_type":"phi3","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40,"num_key_value_heads":10,"intermediate_size":17920,"vocab_size":100352}`, 14659507200},
		{"Phi-3-medium", `{"model_type":"phi3","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40,"num_key_value_heads":10,"intermediate_size":17920,"vocab_size":32064}`, 13960238080},
		{"Phi-3.5-MoE", `{"model_type":"phimoe","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":6400,"vocab_size":32064,"num_local_experts":16,"num_experts_per_tok":2,"attention_bias":true,"lm_head_bias":true}`, 41873153344},
		{"starcoder2-3b", `{"model_type":"starcoder2","hidden_size":3072,"num_hidden_layers":30,"num_attention_heads":24,"num_key_value_heads":2,"intermediate_size":12288,"vocab_size":49152,"use_bias":true}`, 3030371328},
		{"starcoder2-7b", `{"model_type":"starcoder2","hidden_size":4608,"num_hidden_layers":32,"num_attention_heads":36,"num_key_value_heads":4,"intermediate_size":18432,"vocab_size":49152,"use_bias":true}`, 7173923840},
		{"starcoder", `{"model_type":"gpt_bigcode","n_embd":6144,"n_layer":40,"n_head":48,"n_inner":24576,"n_positions":8192,"vocab_size":49152,"multi_query":true}`, 15517456384},
		{"dbrx-base", `{"model_type":"dbrx","d_model":6144,"n_layers":40,"n_heads":48,"max_seq_len":32768,"vocab_size":100352,"attn_config":{"kv_n_heads":8},"ffn_config":{"ffn_hidden_size":10752,"moe_num_experts":16,"moe_top_k":4}}`, 131596523520},
		{"c4ai-command-r-v01", `{"model_type":"cohere","hidden_size":8192,"num_hidden_layers":40,"num_attention_heads":64,"num_key_value_heads":64,"intermediate_size":22528,"vocab_size":256000}`, 34980831232},
		{"c4ai-command-r-plus", `{"model_type":"cohere","hidden_size":12288,"num_hidden_layers":64,"num_attention_heads":96,"num_key_value_heads":8,"intermediate_size":33792,"vocab_size":256000,"use_qk_norm":true}`, 103810674688},
		{"Qwen2.5-7B", `{"model_type":"qwen2","hidden_size":3584,"num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,"intermediate_size":18944,"vocab_size":152064,"use_sliding_window":false,"sliding_window":131072}`, 7615616512},
		{"Qwen2.5-32B", `{"model_type":"qwen2","hidden_size":5120,"num_hidden_layers":64,"num_attention_heads":40,"num_key_value_heads":8,"intermediate_size":27648,"vocab_size":152064}`, 32763876352},
		{"Qwen3-8B", `{"model_type":"qwen3","hidden_size":4096,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":151936}`, 8190735360},
		{"Qwen3-32B", `{"model_type":"qwen3","hidden_size":5120,"num_hidden_layers":64,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"intermediate_size":25600,"vocab_size":151936}`, 32762123264},
		{"Qwen3-235B-A22B", `{"model_type":"qwen3_moe","hidden_size":4096,"num_hidden_layers":94,"num_attention_heads":64,"num_key_value_heads":4,"head_dim":128,"intermediate_size":12288,"moe_intermediate_size":1536,"num_experts":128,"num_experts_per_tok":8,"vocab_size":151936}`, 235093634560},
		{"Qwen-7B", `{"model_type":"qwen","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":22016,"vocab_size":151936}`, 7721324544},
		{"Qwen2-VL-7B", `{"model_type":"qwen2_vl","hidden_size":3584,"num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,"intermediate_size":18944,"vocab_size":152064,"tie_word_embeddings":false,"vision_config":{"depth":32,"embed_dim":1280,"hidden_size":3584,"in_chans":3,"mlp_ratio":4,"num_heads":16,"patch_size":14,"spatial_merge_size":2,"temporal_patch_size":2}}`, 8291375616},
		{"Qwen2.5-VL-7B", `{"model_type":"qwen2_5_vl","hidden_size":3584,"num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,"intermediate_size":18944,"vocab_size":152064,"vision_config":{"depth":32,"hidden_size":1280,"intermediate_size":3420,"out_hidden_size":3584,"patch_size":14,"spatial_merge_size":2,"temporal_patch_size":2}}`, 8292166656},
		{"Qwen3-VL-8B", `{"model_type":"qwen3_vl","text_config":{"model_type":"qwen3_vl_text","hidden_size":4096,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":151936},"vision_config":{"depth":27,"hidden_size":1152,"intermediate_size":4304,"out_hidden_size":4096,"patch_size":16,"num_position_embeddings":2304,"deepstack_visual_indexes":[8,16,24]}}`, 8767123696},
		{"llava-1.5-7b", `{"model_type":"llava","text_config":{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":11008,"vocab_size":32064},"vision_config":{"model_type":"clip_vision_model","hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":24,"image_size":336,"patch_size":14}}`, 7063427072},
		{"Llama-4-Scout-17B-16E", `{"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":5120,"num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,"intermediate_size_mlp":16384,"num_local_experts":16,"num_experts_per_tok":1,"interleave_moe_layer_step":1,"vocab_size":202048},"vision_config":{"hidden_size":1408,"num_hidden_layers":34,"intermediate_size":5632,"image_size":336,"patch_size":14,"projector_input_dim":4096,"projector_output_dim":4096,"vision_output_dim":4096}}`, 108641793536},
		{"Llama-4-Maverick-17B-128E", `{"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":5120,"num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,"intermediate_size_mlp":16384,"num_local_experts":128,"num_experts_per_tok":1,"interleave_moe_layer_step":2,"vocab_size":202048},"vision_config":{"hidden_size":1408,"num_hidden_layers":34,"intermediate_size":5632,"image_size":336,"patch_size":14,"projector_input_dim":4096,"projector_output_dim":4096,"vision_output_dim":4096}}`, 401583781376},
		{"DeepSeek-V2", `{"model_type":"deepseek_v2","hidden_size":5120,"num_hidden_layers":60,"num_attention_heads":128,"intermediate_size":12288,"moe_intermediate_size":1536,"n_routed_experts":160,"num_experts_per_tok":6,"n_shared_experts":2,"first_k_dense_replace":1,"moe_layer_freq":1,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":102400}`, 235741434880},
		{"gpt-oss-120b", `{"model_type":"gpt_oss","hidden_size":2880,"num_hidden_layers":36,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"intermediate_size":2880,"vocab_size":201088,"num_local_experts":128,"num_experts_per_tok":4,"sliding_window":128}`, 116829156672},
		{"opt-350m", `{"model_type":"opt","hidden_size":1024,"num_hidden_layers":24,"num_attention_heads":16,"ffn_dim":4096,"vocab_size":50272,"max_position_embeddings":2048,"word_embed_proj_dim":512,"do_layer_norm_before":false}`, 331196416},
		{"opt-6.7b", `{"model_type":"opt","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"ffn_dim":16384,"vocab_size":50272,"max_position_embeddings":2048,"word_embed_proj_dim":4096,"do_layer_norm_before":true}`, 6658473984},
		{"bloom-7b1", `{"model_type":"bloom","n_embed":4096,"hidden_size":4096,"n_layer":30,"num_attention_heads":32,"vocab_size":250880}`, 7069016064},
		{"gpt2-xl", `{"model_type":"gpt2","n_embd":1600,"n_layer":48,"n_head":25,"n_positions":1024,"vocab_size":50257}`, 1557611200},
		{"gpt-neo-2.7B", `{"model_type":"gpt_neo","hidden_size":2560,"num_layers":32,"num_heads":20,"max_position_embeddings":2048,"window_size":256,"vocab_size":50257,"intermediate_size":null}`, 2651307520},
		{"gpt-neox-20b", `{"model_type":"gpt_neox","hidden_size":6144,"num_hidden_layers":44,"num_attention_heads":64,"intermediate_size":24576,"vocab_size":50432}`, 20554567680},
		{"pythia-12b", `{"model_type":"gpt_neox","hidden_size":5120,"num_hidden_layers":36,"num_attention_heads":40,"intermediate_size":20480,"vocab_size":50688}`, 11846072320},
		{"mpt-7b", `{"model_type":"mpt","d_model":4096,"n_layers":32,"n_heads":32,"expansion_ratio":4,"vocab_size":50432,"max_seq_len":2048,"no_bias":true}`, 6649286656},
		{"stablelm-3b-4e1t", `{"model_type":"stablelm","hidden_size":2560,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":6912,"vocab_size":50304}`, 2795443200},
		{"stablelm-2-1_6b", `{"model_type":"stablelm","hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":32,"intermediate_size":5632,"vocab_size":100352,"use_qkv_bias":true}`, 1644515328},
		{"OLMo-7B", `{"model_type":"olmo","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":11008,"vocab_size":50304}`, 6888095744},
		{"OLMoE-1B-7B", `{"model_type":"olmoe","hidden_size":2048,"num_hidden_layers":16,"num_attention_heads":16,"intermediate_size":1024,"num_experts":64,"num_experts_per_tok":8,"vocab_size":50304}`, 6919161856},
		{"internlm2-7b", `{"model_type":"internlm2","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":92544,"bias":false}`, 7737708544},
		{"Baichuan2-7B", `{"model_type":"baichuan","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":11008,"vocab_size":125696}`, 7505973248},
		{"chatglm3-6b", `{"model_type":"chatglm","hidden_size":4096,"ffn_hidden_size":13696,"num_layers":28,"num_attention_heads":32,"multi_query_attention":true,"multi_query_group_num":2,"kv_channels":128,"padded_vocab_size":65024,"add_qkv_bias":true,"add_bias_linear":false,"seq_length":8192}`, 6243584000},
		{"bert-large-uncased", `{"model_type":"bert","hidden_size":1024,"num_hidden_layers":24,"num_attention_heads":16,"intermediate_size":4096,"vocab_size":30522,"max_position_embeddings":512,"type_vocab_size":2}`, 335141888},
		{"roberta-base", `{"model_type":"roberta","hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":3072,"vocab_size":50265,"max_position_embeddings":514,"type_vocab_size":1}`, 124645632},
		{"distilbert-base", `{"model_type":"distilbert","dim":768,"n_layers":6,"n_heads":12,"hidden_dim":3072,"vocab_size":30522,"max_position_embeddings":512}`, 66362880},
		{"albert-base-v2", `{"model_type":"albert","hidden_size":768,"embedding_size":128,"num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":3072,"vocab_size":30000}`, 11683584},
		{"deberta-v3-base", `{"model_type":"deberta-v2","hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":3072,"vocab_size":128100,"max_position_embeddings":512,"type_vocab_size":0,"relative_attention":true,"position_buckets":256,"share_att_key":true,"position_biased_input":false}`, 183831552},
		{"ModernBERT-base", `{"model_type":"modernbert","hidden_size":768,"num_hidden_layers":22,"num_attention_heads":12,"intermediate_size":1152,"vocab_size":50368}`, 149014272},
		{"t5-base", `{"model_type":"t5","d_model":768,"d_ff":3072,"d_kv":64,"num_layers":12,"num_heads":12,"vocab_size":32128}`, 222903552},
		{"flan-t5-base", `{"model_type":"t5","d_model":768,"d_ff":2048,"d_kv":64,"num_layers":12,"num_heads":12,"vocab_size":32128,"feed_forward_proj":"gated-gelu","tie_word_embeddings":false}`, 247577856},
		{"flan-t5-xxl", `{"model_type":"t5","d_model":4096,"d_ff":10240,"d_kv":64,"num_layers":24,"num_heads":64,"vocab_size":32128,"feed_forward_proj":"gated-gelu","tie_word_embeddings":false}`, 11135332352},
		{"bart-large", `{"model_type":"bart","d_model":1024,"encoder_layers":12,"decoder_layers":12,"encoder_ffn_dim":4096,"decoder_ffn_dim":4096,"encoder_attention_heads":16,"decoder_attention_heads":16,"vocab_size":50265,"max_position_embeddings":1024}`, 406291456},
		{"whisper-small", `{"model_type":"whisper","d_model":768,"encoder_layers":12,"decoder_layers":12,"encoder_attention_heads":12,"decoder_attention_heads":12,"encoder_ffn_dim":3072,"decoder_ffn_dim":3072,"vocab_size":51865,"num_mel_bins":80}`, 241734912},
		{"whisper-large-v2", `{"model_type":"whisper","d_model":1280,"encoder_layers":32,"decoder_layers":32,"encoder_attention_heads":20,"decoder_attention_heads":20,"encoder_ffn_dim":5120,"decoder_ffn_dim":5120,"vocab_size":51865,"num_mel_bins":80}`, 1543304960},
		{"clip-vit-large-patch14", `{"model_type":"clip","projection_dim":768,"text_config":{"hidden_size":768,"intermediate_size":3072,"num_hidden_layers":12,"num_attention_heads":12},"vision_config":{"hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":24,"num_attention_heads":16,"patch_size":14}}`, 427616513},
		{"clip-vit-base-patch32", `{"model_type":"clip","projection_dim":512,"text_config":{},"vision_config":{}}`, 151277313},
		{"siglip-base-patch16-224", `{"model_type":"siglip","text_config":{},"vision_config":{}}`, 203155970},
		{"siglip-so400m-patch14-384", `{"model_type":"siglip","text_config":{"hidden_size":1152,"intermediate_size":4304,"num_hidden_layers":27,"num_attention_heads":16},"vision_config":{"hidden_size":1152,"image_size":384,"intermediate_size":4304,"num_hidden_layers":27,"num_attention_heads":16,"patch_size":14}}`, 877960498},
		{"timm/vit_large_patch16_224", `{"hidden_size":1024,"num_hidden_layers":24,"num_attention_heads":16}`, 304326632},
		{"dinov2-base", `{"model_type":"dinov2","hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"image_size":518,"patch_size":14,"mlp_ratio":4}`, 86580480},
		{"sd-1.5", `{"_class_name":"UNet2DConditionModel","block_out_channels":[320,640,1280,1280],"layers_per_block":2,"cross_attention_dim":768,"down_block_types":["CrossAttnDownBlock2D","CrossAttnDownBlock2D","CrossAttnDownBlock2D","DownBlock2D"],"up_block_types":["UpBlock2D","CrossAttnUpBlock2D","CrossAttnUpBlock2D","CrossAttnUpBlock2D"]}`, 859520964},
		{"sd-2.1", `{"_class_name":"UNet2DConditionModel","block_out_channels":[320,640,1280,1280],"layers_per_block":2,"cross_attention_dim":1024}`, 865910724},
		{"sdxl-vae", `{"_class_name":"AutoencoderKL","block_out_channels":[128,256,512,512],"layers_per_block":2,"latent_channels":4}`, 83653863},
		{"FLUX.1-dev", `{"_class_name":"FluxTransformer2DModel","num_layers":19,"num_single_layers":38,"attention_head_dim":128,"num_attention_heads":24,"joint_attention_dim":4096,"pooled_projection_dim":768,"in_channels":64,"guidance_embeds":true}`, 11901408320},
		{"sd3-medium", `{"_class_name":"SD3Transformer2DModel","num_layers":24,"attention_head_dim":64,"num_attention_heads":24,"joint_attention_dim":4096,"pooled_projection_dim":2048,"caption_projection_dim":1536,"in_channels":16,"out_channels":16,"patch_size":2}`, 2028328000},
		{"mamba-130m", `{"model_type":"mamba","hidden_size":768,"num_hidden_layers":24,"state_size":16,"conv_kernel":4,"expand":2,"vocab_size":50280,"time_step_rank":48}`, 129135360},
		{"mamba-2.8b", `{"model_type":"mamba","hidden_size":2560,"num_hidden_layers":64,"state_size":16,"vocab_size":50280}`, 2768345600},
		{"Mistral-Small-24B", `{"model_type":"mistral","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":32768,"vocab_size":131072}`, 23572403200},
		{"Mistral-Small-3.1", `{"model_type":"mistral3","text_config":{"model_type":"mistral","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":32768,"vocab_size":131072},"vision_config":{"model_type":"pixtral","hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":24,"patch_size":14,"image_size":1540,"num_attention_heads":16},"spatial_merge_size":2,"multimodal_projector_bias":false}`, 24011361280},
		{"falcon-rw-1b", `{"model_type":"falcon","hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":32,"vocab_size":50304,"alibi":true,"bias":true,"multi_query":false,"parallel_attn":false,"new_decoder_architecture":false}`, 1311625216},
		{"SmolLM2-1.7B", `{"model_type":"llama","hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":32,"num_key_value_heads":32,"intermediate_size":8192,"vocab_size":49152,"tie_word_embeddings":true}`, 1711376384},
		{"Yi-34B", `{"model_type":"llama","hidden_size":7168,"num_hidden_layers":60,"num_attention_heads":56,"num_key_value_heads":8,"intermediate_size":20480,"vocab_size":64000}`, 34388917248},
		{"Mixtral-8x22B", `{"model_type":"mixtral","hidden_size":6144,"num_hidden_layers":56,"num_attention_heads":48,"num_key_value_heads":8,"intermediate_size":16384,"vocab_size":32768,"num_local_experts":8,"num_experts_per_tok":2}`, 140630071296},
		{"deepseek-moe-16b", `{"model_type":"deepseek","hidden_size":2048,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":16,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"moe_layer_freq":1,"vocab_size":102400}`, 16375728128},
		{"Codestral-22B", `{"model_type":"mistral","hidden_size":6144,"num_hidden_layers":56,"num_attention_heads":48,"num_key_value_heads":8,"intermediate_size":16384,"vocab_size":32768}`, 22247282688},
		{"OLMo-2-7B", `{"model_type":"olmo2","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":11008,"vocab_size":100352}`, 7298617344},
		{"Kimi-K2", `{"model_type":"kimi_k2","hidden_size":7168,"num_hidden_layers":61,"num_attention_heads":64,"intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":384,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":163840}`, 1026408232448},
		{"GLM-4-9B-0414", `{"model_type":"glm4","hidden_size":4096,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":2,"head_dim":128,"intermediate_size":13696,"vocab_size":151552,"attention_bias":true}`, 9400279040},
		{"granite-3.3-8b", `{"model_type":"granite","hidden_size":4096,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":12800,"vocab_size":49159,"tie_word_embeddings":true}`, 8170864640},
		{"bge-m3", `{"model_type":"xlm-roberta","hidden_size":1024,"num_hidden_layers":24,"num_attention_heads":16,"intermediate_size":4096,"vocab_size":250002,"max_position_embeddings":8194,"type_vocab_size":1}`, 567754752},
		{"nomic", `{"model_type":"nomic_bert","n_embd":768,"n_layer":12,"n_head":12,"n_inner":3072,"vocab_size":30528,"type_vocab_size":2,"n_positions":8192}`, 136731648},
		{"t5-base as a bare summary", `{"hidden_size":768,"num_hidden_layers":24,"num_attention_heads":12,"intermediate_size":3072,"vocab_size":32128}`, 222903552},
		{"paligemma-3b", `{"model_type":"paligemma","text_config":{"model_type":"gemma","hidden_size":2048,"num_hidden_layers":18,"num_attention_heads":8,"num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,"vocab_size":257216},"vision_config":{"model_type":"siglip_vision_model","hidden_size":1152,"intermediate_size":4304,"num_hidden_layers":27,"patch_size":14,"image_size":224,"vision_use_head":false}}`, 2923466480},
		{"codegen-350m", `{"model_type":"codegen","n_embd":1024,"n_layer":20,"n_head":16,"vocab_size":51200,"n_positions":2048}`, 356712448},
		{"sd3.5-large", `{"_class_name":"SD3Transformer2DModel","num_layers":38,"attention_head_dim":64,"num_attention_heads":38,"joint_attention_dim":4096,"pooled_projection_dim":2048,"caption_projection_dim":2432,"in_channels":16,"out_channels":16,"patch_size":2,"qk_norm":"rms_norm"}`, 8056627520},
		{"sd3.5-medium", `{"_class_name":"SD3Transformer2DModel","num_layers":24,"attention_head_dim":64,"num_attention_heads":24,"joint_attention_dim":4096,"pooled_projection_dim":2048,"caption_projection_dim":1536,"in_channels":16,"out_channels":16,"patch_size":2,"qk_norm":"rms_norm","dual_attention_layers":[0,1,2,3,4,5,6,7,8,9,10,11,12]}`, 2243171520},
	} {
		cfg, err := Decode([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		m, err := Read(cfg, c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := m.Params(); got != c.params {
			t.Errorf("%s (%s): %d parameters, published %d (off by %d)", c.name, m.Architecture, got, c.params, got-c.params)
		}
	}
}
