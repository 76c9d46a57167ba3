package estimator

import (
	"github.com/berthq/berth/estimator/model"
)

// shard is what one rank of a parallel run holds of a model: the fullest rank, since that is the one that dies.
type shard struct {
	m     *model.Model
	rank  ranks
	quant model.Quant
	plain float64 // bytes of an element that is not quantised
}

// attentionTP is over how many ranks one attention is split.
func (s shard) attentionTP() int {
	if s.rank.attentionDP {
		return max(1, s.rank.tp/s.rank.dp)
	}
	return s.rank.tp
}

// parts is over how many ranks a role's tensors are split.
func (s shard) parts(role model.Role) int {
	switch role {
	case model.Embedding, model.Head, model.MLP, model.SharedExpert, model.Tower:
		return s.rank.tp
	case model.Attention:
		return s.attentionTP()
	case model.KVProjection:
		if heads := int(s.m.KV.Heads); heads > 0 {
			return min(s.attentionTP(), heads) // beyond that, each KV head is kept twice
		}
		return s.attentionTP()
	case model.Expert, model.ExpertBias:
		return s.expertParts()
	case model.Position, model.Norm, model.LatentA, model.Router, model.Bias, model.Convolution:
		return 1
	}
	return 1
}

func (s shard) expertParts() int {
	if s.rank.moeTP > 0 {
		return max(1, s.rank.ep) * s.rank.moeTP
	}
	return max(s.rank.ep, s.rank.tp)
}

// stageShare is the part of the layers that the fullest pipeline stage holds.
func (s shard) stageShare() float64 {
	if s.rank.pp <= 1 || s.m.Layers == 0 {
		return 1
	}
	pp := int64(s.rank.pp)
	return min(1, float64((s.m.Layers+pp-1)/pp)/float64(s.m.Layers))
}

// weightBytes of the fullest rank. Of the two ends of a pipeline only the heavier counts.
func (s shard) weightBytes() float64 {
	var layers, first, last float64
	for _, t := range s.m.Tensors {
		b := s.quant.WeightBytes(s.m, t, s.plain) / float64(s.parts(t.Role))
		switch {
		case t.Layered:
			layers += b * s.stageShare()
		case t.Role == model.Head:
			last += b
		case t.Role == model.Embedding:
			first += b
			if s.m.Tied {
				last += b
			}
		default:
			first += b
		}
	}
	if s.quant.Bits > 0 && s.m.KV.Latent > 0 {
		layers += 2 * float64(s.m.LatentUp) * s.stageShare() / float64(s.attentionTP())
	}
	switch {
	case s.rank.pp > 1:
		return layers + max(first, last)
	case s.m.Tied:
		return layers + first
	}
	return layers + first + last
}

// kvBytes is the cache one rank needs for its share of the sequences, each with `context` tokens.
func (s shard) kvBytes(context, sequences int64, bytesPerElement float64) float64 {
	kv := s.m.KV
	if s.rank.dp > 1 {
		sequences = (sequences + int64(s.rank.dp) - 1) / int64(s.rank.dp)
	}
	const block = 16 // tokens: engines hand the cache out in blocks
	context = (context + block - 1) / block * block
	elements := float64(kv.Elements())
	if kv.Latent == 0 && kv.Heads > 0 {
		per := (kv.Heads + int64(s.attentionTP()) - 1) / int64(s.attentionTP())
		elements = float64(per * (kv.KDim + kv.VDim))
	}
	tokens := float64(kv.Global)*float64(context) + float64(kv.Window)*float64(min(context, max(1, kv.WindowSize)))
	perSequence := tokens * elements * s.stageShare() / float64(max(1, s.rank.dcp))
	state := float64(kv.State) * s.stageShare()
	return float64(sequences) * (perSequence + state) * bytesPerElement
}
