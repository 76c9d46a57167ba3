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
	r := ranks{tp: p.tp, pp: p.pp, dp: p.dp, cp: p.cp, dcp: p.dcp, ep: 1}
	if s.on("enable-expert-parallel") || s.on("ep") || p.ep > 1 {
		r.ep = p.tp * p.dp * p.cp
	} else {
		r.moeTP = p.tp * p.dp * p.cp // without it, vLLM shards each expert over tp x dp
	}
	return world{gpus: p.tp * p.pp * p.cp * p.dp, rank: r, say: func() string {
		text := fmt.Sprintf("tp %d x pp %d x pcp %d x dp %d", p.tp, p.pp, p.cp, p.dp)
		return text + aside("dcp %d inside tp", p.dcp) + aside("experts over %d ranks", r.ep)
	}}, nil
}

// aside is a remark on a size that is more than 1.
func aside(format string, n int) string {
	if n <= 1 {
		return ""
	}
	return " (" + fmt.Sprintf(format, n) + ")"
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
	w := world{gpus: p.tp * p.pp * p.dp}
	if inside {
		w.gpus = p.tp * p.pp
	}
	w.rank = ranks{tp: p.tp, pp: p.pp, dp: p.dp, cp: p.cp, dcp: p.dcp, ep: ep, moeTP: p.tp / ep / p.moeDP, attentionDP: inside}
	w.say = func() string {
		text := fmt.Sprintf("tp %d x pp %d x dp %d", p.tp, p.pp, p.dp)
		if inside {
			text = fmt.Sprintf("tp %d x pp %d (attention dp %d inside tp)", p.tp, p.pp, p.dp)
		}
		return text + aside("attention cp %d inside tp", p.cp) + aside("ep %d inside tp", ep)
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
	r := ranks{tp: p.tp, pp: p.pp, cp: p.cp, dcp: p.dcp, dp: 1, ep: ep, moeTP: moeTP, attentionDP: inside && p.tp > 1}
	if r.attentionDP {
		r.dp = p.tp
	}
	return world{gpus: p.tp * p.pp * p.cp, rank: r, say: func() string {
		return fmt.Sprintf("tp %d x pp %d x cp %d", p.tp, p.pp, p.cp) + aside("attention dp %d inside tp", r.dp)
	}}, nil
}

// engineTitle is how people write an engine's name.
func engineTitle(p launch.Program) string {
	if r, ok := engineRules[p]; ok {
		return r.title
	}
	return string(p)
}
