package estimator

import (
	"fmt"
	"math"

	"github.com/berthq/berth/estimator/launch"
	"github.com/berthq/berth/estimator/model"
)

// What engines and the driver take beside weights and cache. Ranges in engine logs: a context 0.05-0.35 GiB, with
// communicators up to 3.6 GiB (older vLLM at tp 2), CUDA graphs 0.7-1.4 GiB. Too low kills a job, so: the upper part.
const (
	mib            = 1 << 20
	contextMB      = 350  // CUDA context and libraries
	communicatorMB = 2048 // NCCL buffers, custom all-reduce, once there is a second rank
	graphsMB       = 1024 // captured CUDA graphs
	slackMB        = 1024 // allocator fragmentation on top of the profile run's peak
	visionMB       = 2048 // picture pre-processing of multimodal models
)

// Engines' own defaults.
const (
	defaultBatchedTokens = 8192  // tokens of one prefill step
	wholePrefill         = 32768 // up to here older vLLM prefills a prompt whole
	defaultMaxSeqs       = 256
	defaultContext       = 2048 // when neither the job nor the config says
)

// load is what a run must hold at once.
type load struct {
	context, sequences int64
	prefill            int64 // tokens of the largest step
	maxSeqs            int64
	kvBytes            float64 // per element
	engine             launch.Program
	eager              bool
	share              float64 // of any card that the engine takes
	contextWhy         string
}

func readLoad(s *settings, m *model.Model, engine launch.Program) (load, error) {
	l := load{engine: engine, kvBytes: 2, maxSeqs: defaultMaxSeqs, eager: s.on("enforce-eager", "disable-cuda-graph")}
	var err error
	read := func(into *int64, names ...string) bool {
		n, ok, e := s.count(names...)
		if e != nil && err == nil {
			err = e
		}
		if ok {
			*into = n
		}
		return ok
	}
	switch {
	case read(&l.context, "max-model-len", "context-length", "max-seq-len", "context", "context-len"):
		l.contextWhy = "as asked"
	case inputAndOutput(&l, read):
		l.contextWhy = "input + output"
	case m.MaxPositions > 0:
		l.context, l.contextWhy = m.MaxPositions, "the config's longest"
	default:
		l.context, l.contextWhy = defaultContext, "no length known"
	}
	l.sequences = 1
	read(&l.sequences, "concurrency", "max-concurrency", "batch-size", "batch", "num-seqs")
	read(&l.maxSeqs, "max-num-seqs", "max-running-requests", "max-batch-size")
	if engine == "" {
		l.maxSeqs = l.sequences
	}
	l.prefill = l.context * max(1, l.sequences)
	if engine != "" {
		l.prefill = defaultBatchedTokens
		if engine == launch.VLLM && l.context <= wholePrefill && !s.on("enable-chunked-prefill") {
			l.prefill = max(defaultBatchedTokens, l.context)
		}
	} else if n := int64(0); read(&n, "input-len", "prompt-len", "input-length") {
		l.prefill = n * l.sequences
	}
	read(&l.prefill, "max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens", "max-prefill-tokens")
	if err != nil {
		return l, err
	}
	l.kvBytes, err = kvElement(s.text("kv-cache-dtype", "kv-dtype", "kv-cache-config.dtype"))
	if err != nil {
		return l, err
	}
	return l, readShare(s, &l)
}

func inputAndOutput(l *load, read func(*int64, ...string) bool) bool {
	var in, out int64
	if !read(&in, "input-len", "prompt-len", "input-length") {
		return false
	}
	read(&out, "output-len", "gen-len", "max-new-tokens", "output-length", "max-tokens")
	l.context = in + out
	return true
}

func kvElement(name string) (float64, error) {
	switch name {
	case "", "auto", "fp16", "bf16", "float16", "bfloat16", "half":
		return 2, nil
	case "fp8", "fp8_e4m3", "fp8_e5m2", "fp8e4m3", "int8", "fp8_inc", "fp8_ds_mla":
		return 1, nil
	case "fp4", "fp4_e2m1", "nvfp4":
		return 0.5625, nil
	case "fp32", "float32":
		return 4, nil
	}
	return 0, fmt.Errorf("kv-cache-dtype: %w: %q is not known; auto, bf16, fp16, fp8, int8 or fp32 is needed", ErrValue, clip(name, 40))
}

// readShare reads which part of a card the engine takes whatever it needs.
func readShare(s *settings, l *load) error {
	defaults := map[launch.Program]float64{launch.VLLM: 0.9, launch.SGLang: 0.88, launch.TensorRT: 0.9}
	l.share = defaults[l.engine]
	if l.engine == "" {
		return nil
	}
	names := []string{"gpu-memory-utilization", "mem-fraction-static", "kv-cache-free-gpu-memory-fraction", "kv-cache-free-gpu-mem-fraction", "kv-cache-config.free-gpu-memory-fraction"}
	share, ok, err := s.fraction(names...)
	if ok {
		l.share = share
	}
	return err
}

// memory is the need of one GPU, term by term, in bytes.
type memory struct {
	weights, kv, activations, gradients, optimizer, runtime float64
	graphs                                                  float64 // the part of runtime outside the engine's share
	weightsWhy                                              string  // when the plain words do not do
}

func (n memory) total() float64 {
	return n.weights + n.kv + n.activations + n.gradients + n.optimizer + n.runtime
}

func megabytes(bytes float64) int64 {
	if bytes > 1<<60 {
		bytes = 1 << 60
	}
	return int64(math.Ceil(bytes / mib))
}

// inference computes what serving needs on the fullest rank.
func inference(s shard, l load) memory {
	n := memory{weights: s.weightBytes(), kv: s.kvBytes(l.context, l.sequences, l.kvBytes)}
	n.activations = activations(s, l)
	n.runtime = contextMB * mib
	if s.rank.tp*s.rank.pp > 1 && l.engine != "" || s.rank.tp > 1 {
		n.runtime = communicatorMB * mib
	}
	if l.engine != "" && !l.eager {
		n.graphs = graphsMB * mib
		n.runtime += n.graphs
	}
	return n
}

// activations is the peak of one step: T * b * (2H + 3I/tp), the logits, and slack.
func activations(s shard, l load) float64 {
	m := s.m
	const b = 2
	tokens, wide := float64(l.prefill), 3.0
	if !m.Gated {
		wide = 2
	}
	switch m.Kind {
	case model.Diffusion, model.Composite:
		return diffusionPeak(m, l)
	case model.Vision:
		tokens = float64(m.TowerTokens * l.sequences)
	case model.Encoder:
		if l.engine == "" && m.MaxPositions > 0 {
			tokens = float64(min(l.context, m.MaxPositions) * l.sequences)
		}
	case model.Decoder, model.Seq2Seq, model.Recurrent:
	}
	peak := tokens * b * (2*float64(m.Hidden) + wide*float64(m.Intermediate)/float64(max(1, s.rank.tp)))
	if m.Vocab > 0 && m.Kind != model.Encoder {
		peak += float64(l.maxSeqs) * float64(m.Vocab) * 8
	}
	if m.TowerHidden > 0 && m.Kind == model.Decoder {
		peak += visionMB*mib + float64(m.TowerTokens*b)*14*float64(m.TowerHidden)
	}
	if l.engine != "" {
		peak += slackMB * mib
	}
	return peak
}

// diffusionPeak: the autoencoder at full picture size outweighs the denoiser; 8 pixels a side for each latent.
func diffusionPeak(m *model.Model, l load) float64 {
	side := float64(max(64, m.ImageSize) * 8)
	if m.ImageSize >= 512 {
		side = float64(m.ImageSize)
	}
	const channels, live, b = 128, 8, 2
	return float64(max(1, l.sequences)) * side * side * channels * live * b
}
