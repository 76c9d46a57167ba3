package estimator

import (
	"fmt"

	"github.com/berthq/berth/estimator/launch"
)

// vllmWorld: tp x pp x pcp x dp. Decode context parallel and expert parallel live inside these ranks.
func vllmWorld(s *settings, p point) (world, error) {
	const title = "vLLM"
	if p.tp%p.dcp != 0 {
		return world{}, refuse(title, "tensor_parallel_size must be divisible by decode_context_parallel_size",
			"decode context parallel %d does not divide tensor parallel %d", p.dcp, p.tp)
	}
	if p.cp > 1 && p.dp > 1 {
		return world{}, refuse(title, "prefill context parallelism and data parallelism exclude each other",
			"prefill context parallel %d together with data parallel %d", p.cp, p.dp)
	}
	if err := oneMachine(s, "nnodes"); err != nil {
		return world{}, err
	}
	if local, ok, err := s.count("data-parallel-size-local"); err != nil {
		return world{}, err
	} else if ok && local < int64(p.dp) {
		return world{}, fmt.Errorf("%w: vLLM keeps %d of %d data-parallel replicas on this machine; one job on several machines is not in this version", ErrRefused, local, p.dp)
	}
	w := world{gpus: p.tp * p.pp * p.cp * p.dp, text: fmt.Sprintf("tp %d x pp %d x pcp %d x dp %d", p.tp, p.pp, p.cp, p.dp)}
	w.rank = ranks{tp: p.tp, pp: p.pp, dp: p.dp, cp: p.cp, dcp: p.dcp, ep: 1}
	if p.dcp > 1 {
		w.text += fmt.Sprintf(" (dcp %d inside tp)", p.dcp)
	}
	if s.on("enable-expert-parallel") || s.on("ep") || p.ep > 1 {
		w.rank.ep = p.tp * p.dp * p.cp
		w.text += fmt.Sprintf(" (experts over %d ranks)", w.rank.ep)
	} else {
		w.rank.moeTP = p.tp * p.dp * p.cp // without it, vLLM shards each expert over tp x dp
	}
	return w, nil
}

// sglangWorld: tp x pp x dp, or tp x pp when the attention's data parallel is inside tp.
func sglangWorld(s *settings, p point) (world, error) {
	const title = "SGLang"
	inside := s.on("enable-dp-attention") && p.dp > 1
	nodes, _, err := s.count("nnodes")
	if err != nil {
		return world{}, err
	}
	ep := max(1, p.ep)
	switch {
	case inside && p.tp%p.dp != 0:
		return world{}, refuse(title, "with enable-dp-attention tp_size must be divisible by dp_size", "data parallel %d does not divide tensor parallel %d", p.dp, p.tp)
	case inside && p.tp%(p.dp*p.cp) != 0, p.tp%p.cp != 0:
		return world{}, refuse(title, "tp_size must be divisible by attn_cp_size (times dp_size under enable-dp-attention)", "attention context parallel %d in tensor parallel %d", p.cp, p.tp)
	case p.tp%ep != 0:
		return world{}, refuse(title, "tp_size must be divisible by ep_size", "expert parallel %d does not divide tensor parallel %d", ep, p.tp)
	case p.tp%(ep*p.moeDP) != 0:
		return world{}, refuse(title, "tp_size must be divisible by ep_size x moe_dp_size", "expert parallel %d x moe data parallel %d in tensor parallel %d", ep, p.moeDP, p.tp)
	case p.dp > 1 && !inside && nodes > 1:
		return world{}, refuse(title, "data parallel over several nodes needs enable-dp-attention", "plain data parallel %d with nnodes %d", p.dp, nodes)
	case p.tp%p.dcp != 0:
		return world{}, refuse(title, "decode context parallel divides tp_size", "decode context parallel %d in tensor parallel %d", p.dcp, p.tp)
	}
	if err := oneMachine(s, "nnodes"); err != nil {
		return world{}, err
	}
	w := world{rank: ranks{tp: p.tp, pp: p.pp, dp: p.dp, cp: p.cp, dcp: p.dcp, ep: ep, moeTP: p.tp / ep / p.moeDP, attentionDP: inside}}
	if inside {
		w.gpus, w.text = p.tp*p.pp, fmt.Sprintf("tp %d x pp %d (attention dp %d inside tp)", p.tp, p.pp, p.dp)
	} else {
		w.gpus, w.text = p.tp*p.pp*p.dp, fmt.Sprintf("tp %d x pp %d x dp %d", p.tp, p.pp, p.dp)
	}
	if p.cp > 1 {
		w.text += fmt.Sprintf(" (attention cp %d inside tp)", p.cp)
	}
	if ep > 1 {
		w.text += fmt.Sprintf(" (ep %d inside tp)", ep)
	}
	return w, nil
}

// tensorrtWorld: tp x pp x cp. Attention data parallel is as wide as tp; the experts' grid fills tp.
func tensorrtWorld(s *settings, p point) (world, error) {
	const title = "TensorRT-LLM"
	ep, moeTP := p.ep, p.moeTP
	switch {
	case ep > 0 && moeTP == 0:
		moeTP = p.tp / ep
	case moeTP > 0 && ep == 0:
		ep = p.tp / moeTP
	case ep == 0:
		ep, moeTP = 1, p.tp
	}
	if ep*moeTP != p.tp {
		return world{}, refuse(title, "moe_tp_size x moe_ep_size must equal tp_size", "moe_tp %d x moe_ep %d with tp %d", moeTP, ep, p.tp)
	}
	inside := s.on("enable-attention-dp", "attention-dp")
	if p.dp > 1 && (!inside || p.dp != p.tp) {
		return world{}, refuse(title, "data parallel is enable_attention_dp, as wide as tensor parallel", "data parallel %d with tensor parallel %d", p.dp, p.tp)
	}
	if p.tp%p.dcp != 0 {
		return world{}, refuse(title, "context parallel is cp_size; a decode context inside tp divides it", "decode context parallel %d in tensor parallel %d", p.dcp, p.tp)
	}
	w := world{
		gpus: p.tp * p.pp * p.cp,
		text: fmt.Sprintf("tp %d x pp %d x cp %d", p.tp, p.pp, p.cp),
		rank: ranks{tp: p.tp, pp: p.pp, cp: p.cp, dcp: p.dcp, dp: 1, ep: ep, moeTP: moeTP, attentionDP: inside && p.tp > 1},
	}
	if w.rank.attentionDP {
		w.rank.dp = p.tp
		w.text += fmt.Sprintf(" (attention dp %d inside tp)", p.tp)
	}
	return w, nil
}

// engineTitle is how people write an engine's name.
func engineTitle(p launch.Program) string {
	if r, ok := engineRules[p]; ok {
		return r.title
	}
	return string(p)
}
