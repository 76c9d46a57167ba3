package model

import "math"

// Kind is what a model does, as far as memory cares.
type Kind string

// The kinds.
const (
	Decoder   Kind = "decoder"         // tokens one after another, with a KV cache
	Encoder   Kind = "encoder"         // one pass
	Seq2Seq   Kind = "encoder-decoder" // one pass, then tokens
	Vision    Kind = "vision"
	Diffusion Kind = "diffusion"
	Recurrent Kind = "recurrent" // a state of fixed size instead of a KV cache
	Composite Kind = "composite" // a pipeline of several models
)

// Role is what a tensor is for: it decides how it is split and whether quantisation touches it.
type Role int

// The roles.
const (
	Embedding    Role = iota // token embedding
	Head                     // output projection of its own
	Position                 // learned positions and other embeddings
	Norm                     // norms, biases of norms, small vectors
	Attention                // linear layers of attention
	LatentA                  // MLA down-projections, whole on every rank
	KVProjection             // key and value projections: split at most once per KV head
	MLP                      // linear layers of a dense feed-forward
	SharedExpert             // experts every token passes
	Router                   // gate of a mixture
	Expert                   // routed experts
	Bias                     // biases of linear layers
	ExpertBias               // biases of routed experts
	Tower                    // another modality's encoder and its projector
	Convolution              // of a diffusion model
)

// Tensor is all tensors of one role in one place.
type Tensor struct {
	Role    Role
	Count   int64 // elements, over all layers
	Layered bool  // spread over the layers, so split by pipeline parallel
}

// KV says what attention keeps per token.
type KV struct {
	Global, Window int64 // layers that keep all tokens; layers that keep at most WindowSize
	WindowSize     int64
	Heads          int64 // KV heads
	KDim, VDim     int64 // per head
	Latent         int64 // MLA: elements per layer and token, the same on every tp rank; then Heads is 0
	// State is what a recurrent layer keeps per sequence, elements over all layers.
	State int64
}

// Layers that keep a cache.
func (k KV) Layers() int64 { return k.Global + k.Window }

// Elements a token costs in one layer.
func (k KV) Elements() int64 {
	if k.Latent > 0 {
		return k.Latent
	}
	return k.Heads * (k.KDim + k.VDim)
}

// Model is an architecture with its sizes.
type Model struct {
	Architecture string
	Kind         Kind
	Tensors      []Tensor
	KV           KV

	Hidden, Layers, Heads int64
	Intermediate          int64 // width of the widest feed-forward a token passes at once
	Gated                 bool
	Vocab, MaxPositions   int64
	Tied                  bool
	Experts, TopK         int64
	// LargestLayer is the parameter count of the largest layer, for ZeRO-3.
	LargestLayer int64
	TowerTokens  int64 // tokens a picture becomes at most
	TowerHidden  int64
	ImageSize    int64 // of a diffusion model's latent
	// LatentUp counts the latent attention up-projections that engines also keep at 16 bit when they quantise.
	LatentUp int64

	DType string // of the config: bfloat16, float32, ...
	Quant Quant  // of the config
}

func (m *Model) add(role Role, layered bool, count int64) {
	if count <= 0 {
		return
	}
	for i := range m.Tensors {
		if m.Tensors[i].Role == role && m.Tensors[i].Layered == layered {
			m.Tensors[i].Count = saturate(m.Tensors[i].Count, count)
			return
		}
	}
	m.Tensors = append(m.Tensors, Tensor{Role: role, Count: count, Layered: layered})
}

// saturate keeps an absurd sum from wrapping round.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64/4 || b > math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return a + b
}

// Params is the exact number of parameters.
func (m *Model) Params() int64 {
	var n int64
	for _, t := range m.Tensors {
		n = saturate(n, t.Count)
	}
	return n
}

// ActiveParams are those a token passes.
func (m *Model) ActiveParams() int64 {
	n := m.Params()
	if m.Experts == 0 {
		return n
	}
	for _, t := range m.Tensors {
		if t.Role == Expert || t.Role == ExpertBias {
			n -= t.Count - int64(float64(t.Count)*float64(m.TopK)/float64(m.Experts))
		}
	}
	return n
}

// KVBytesPerToken is of the whole model, every layer keeping every token.
func (m *Model) KVBytesPerToken(bytesPerElement float64) int64 {
	return int64(float64(m.KV.Layers()*m.KV.Elements()) * bytesPerElement)
}
