package estimator

import (
	"fmt"
	"strings"

	"github.com/berthq/berth/estimator/model"
)

// training is how a model is trained, as far as memory cares.
type training struct {
	method    string // full, lora, qlora
	zero      int64  // 0-3; 3 is FSDP too
	recompute string // none, selective, full
	sequence  int64
	batch     int64 // micro batch
	rank      int64 // of LoRA
	optimizer float64
	optName   string
	gradient  float64 // bytes per trained parameter
	replicas  int64   // data-parallel ranks
	cp        int64
	compiled  bool
	chunked   bool // the loss is computed in chunks
	eager     bool // attention scores are kept
	inBack    bool // the optimizer steps within backward: no whole gradient
	offload   bool // optimizer states live in host memory
}

// trains reports whether the job says that it trains.
func trains(s *settings) bool {
	switch s.text("mode", "task") {
	case "train", "training", "finetune", "fine-tune", "finetuning", "pretrain", "sft":
		return true
	case "inference", "serve", "generate", "infer":
		return false
	}
	if _, ok := methods[s.text("method", "finetune-method", "finetuning-type", "train-method")]; ok {
		return true
	}
	if _, _, ok := s.find(trainingMarks); ok {
		return true
	}
	return s.on("training", "train", "do-train", "qlora", "lora")
}

// trainingMarks are parameters and flags that only training has.
var trainingMarks = []string{
	"zero-stage", "zero", "zero-optimization.stage", "deepspeed-config.zero-stage", "lora-rank", "lora-r", "micro-batch-size",
	"per-device-train-batch-size", "train-micro-batch-size-per-gpu", "learning-rate", "num-train-epochs", "gradient-accumulation-steps",
}

var methods = map[string]string{
	"full": "full", "full-finetune": "full", "sft": "full", "pretrain": "full", "finetune": "full", "freeze": "lora",
	"lora": "lora", "adapter": "lora", "adapter_v2": "lora", "dora": "lora", "qlora": "qlora", "qdora": "qlora",
}

// optimizerBytes per parameter: states, and the 32-bit master copy where the weights are 16 bit.
var optimizerBytes = map[string]float64{
	"adamw": 12, "adam": 12, "adamw-torch": 12, "adamw-torch-fused": 12, "adamw-bf16": 4, "adamw-8bit": 2, "adam-8bit": 2, "adamw8bit": 2,
	"adamw-bnb-8bit": 2, "paged-adamw": 0, "paged-adamw-8bit": 0, "paged-adamw-32bit": 0, "sgd": 4, "sgd-momentum": 8, "adafactor": 4.1, "lion": 8, "lion-8bit": 1, "muon": 8, "none": 0,
}

func readTraining(s *settings, m *model.Model, replicas int64) (training, error) {
	t := training{method: "full", gradient: 2, replicas: max(1, replicas), batch: 1, rank: 16, cp: 1}
	if method, ok := methods[s.text("method", "finetune-method", "finetuning-type", "train-method")]; ok {
		t.method = method
	} else if s.on("qlora") {
		t.method = "qlora"
	} else if s.on("lora") {
		t.method = "lora"
	}
	t.sequence = min(max(m.MaxPositions, 1), defaultContext)
	var err error
	read := func(into *int64, names ...string) {
		n, ok, e := s.count(names...)
		if e != nil && err == nil {
			err = e
		}
		if ok {
			*into = n
		}
	}
	read(&t.sequence, "seq-len", "sequence-length", "max-seq-len", "max-seq-length", "max-length", "cutoff-len", "context-length", "block-size", "seq-length")
	read(&t.batch, "micro-batch-size", "per-device-train-batch-size", "train-micro-batch-size-per-gpu", "batch-size", "micro-batch", "local-batch-size")
	read(&t.rank, "lora-rank", "lora-r", "r")
	read(&t.zero, "zero-stage", "zero", "zero-optimization.stage", "deepspeed-config.zero-stage")
	read(&t.cp, "context-parallel-size", "cp-size", "cp")
	if err != nil {
		return t, err
	}
	if t.zero > 3 {
		return t, fmt.Errorf("zero-stage: %w: %d; 0 to 3 is needed", ErrValue, t.zero)
	}
	if t.zero == 0 && (s.text("distributed-type") == "fsdp" || s.text("fsdp") != "" && s.text("fsdp") != "false" || s.on("fsdp", "use-fsdp")) {
		t.zero = 3
	}
	t.batch, t.cp = max(1, t.batch), max(1, t.cp)
	t.compiled, t.chunked = s.on("compile", "torch-compile"), s.on("chunked-loss", "chunked-cross-entropy", "chunked-ce")
	t.eager = s.text("attention", "attn-implementation") == "eager"
	t.inBack, t.offload = s.on("optimizer-in-backward", "optimizer-in-bwd"), s.on("offload-optimizer", "cpu-offload", "offload")
	if s.on("fp32-gradients") {
		t.gradient = 4
	}
	t.recompute = readRecompute(s)
	return t, t.readOptimizer(s)
}

func readRecompute(s *settings) string {
	names := []string{"recompute", "activation-checkpointing", "gradient-checkpointing", "recompute-granularity", "ac"}
	switch text := s.text(names...); text {
	case "selective", "full", "none":
		return text
	case "":
		if s.on(names...) {
			return "full"
		}
		return "none"
	default:
		if truth(text) {
			return "full"
		}
		return "none"
	}
}

func (t *training) readOptimizer(s *settings) error {
	name := strings.ReplaceAll(s.text("optimizer", "optim"), "_", "-")
	if name == "" {
		name = "adamw"
		if p := s.text("precision", "mixed-precision"); p == "bf16-true" || p == "pure-bf16" || p == "fp16-true" {
			name = "adamw-bf16"
		}
	}
	states, ok := optimizerBytes[name]
	if !ok {
		return fmt.Errorf("optimizer: %w: %q is not known; adamw, adamw-bf16, adamw-8bit, paged-adamw-8bit, sgd, adafactor, lion or none is needed", ErrValue, clip(name, 40))
	}
	t.optimizer, t.optName = states, name
	if t.offload {
		t.optimizer = 0
	}
	return nil
}

// adapters counts LoRA's own parameters: two thin matrices beside each linear layer.
func (t training) adapters(m *model.Model) float64 {
	q := m.Hidden
	kv := m.KV.Heads * m.KV.KDim
	perLayer := 4*m.Hidden + 2*q + 2*max(kv, 1) + 3*(m.Hidden+m.Intermediate)
	return float64(t.rank) * float64(perLayer) * float64(m.Layers)
}

// trainingMemory computes what one GPU needs, by the published accounting: weights 2, gradients 2, Adam 12 bytes a
// parameter; ZeRO-1 4P + 12P/N, ZeRO-2 4P + 16P/N, ZeRO-3 4 x largest layer + 18P/N.
func trainingMemory(s shard, t training) memory {
	var n memory
	held := s.weightBytes()
	p := shard{m: s.m, rank: s.rank, plain: 1}.weightBytes() // parameters on this rank
	replicas := float64(t.replicas)
	switch t.method {
	case "lora", "qlora":
		a := t.adapters(s.m) / float64(max(1, s.rank.tp))
		n.weights = held + 2*a
		n.gradients, n.optimizer = t.gradient*a, t.optimizer*a
		if t.zero == 3 && replicas > 1 {
			n.weights = held/replicas + 2*largestLayer(s)*s.bytesPerParam(held, p)
			n.gradients, n.optimizer = n.gradients/replicas, n.optimizer/replicas
		}
		n.weightsWhy = fmt.Sprintf("the frozen model, and %.0f M adapter parameters (rank %d on all linear layers)", a/1e6, t.rank)
	default:
		t.modelStates(&n, s, p)
	}
	n.activations = t.activations(s)
	n.runtime = contextMB * mib
	if replicas > 1 || s.rank.tp*s.rank.pp > 1 {
		n.runtime = communicatorMB * mib
	}
	return n
}

func (s shard) bytesPerParam(held, params float64) float64 {
	if params == 0 {
		return 2
	}
	return held / params
}

func largestLayer(s shard) float64 {
	return float64(s.m.LargestLayer) / float64(max(1, s.rank.tp))
}

func (t training) modelStates(n *memory, s shard, p float64) {
	replicas := float64(t.replicas)
	gradients := t.gradient * p
	if t.inBack {
		gradients = t.gradient * largestLayer(s)
	}
	switch {
	case t.zero == 1 && replicas > 1:
		n.weights, n.gradients, n.optimizer = 2*p, gradients, t.optimizer*p/replicas
		n.weightsWhy = "ZeRO-1: 2 bytes a parameter"
	case t.zero == 2 && replicas > 1:
		n.weights, n.gradients, n.optimizer = 2*p, gradients, (t.optimizer+4)*p/replicas
		n.weightsWhy = "ZeRO-2: 2 bytes a parameter"
	case t.zero == 3 && replicas > 1:
		n.weights = 4*largestLayer(s) + 2*p/replicas
		n.gradients, n.optimizer = 4*p/replicas, t.optimizer*p/replicas
		if s.rank.pp > 1 { // between micro batches of a pipeline nothing is sharded again
			n.weights, n.gradients = n.weights+2*p, 4*p
		}
		n.weightsWhy = fmt.Sprintf("ZeRO-3: 4 bytes for each parameter of the largest layer, and 2 for each of the whole over %d ranks", t.replicas)
	default:
		n.weights, n.gradients, n.optimizer = 2*p, gradients, t.optimizer*p
		n.weightsWhy = "2 bytes a parameter"
	}
}

// activations that backward needs, of a whole micro batch. With tensor parallel the sequence is split too.
func (t training) activations(s shard) float64 {
	m := s.m
	tp := float64(max(1, s.rank.tp))
	tokens := float64(t.sequence) * float64(t.batch) / float64(t.cp)
	layers := float64(m.Layers)
	one := t.savedPerToken(m)
	if t.eager { // the scores: 5as^2b
		one += 5 * float64(m.Heads) * float64(t.sequence)
	}
	var saved float64
	switch t.recompute {
	case "full":
		saved = layers*2*float64(m.Hidden) + one
	case "selective":
		saved = layers * t.selectivePerToken(m)
	default:
		saved = layers * one
	}
	const logitBytes, chunks = 12, 8 // 16-bit logits, their 32-bit copy, both gradients
	logits := tokens * float64(m.Vocab) * logitBytes / tp
	if t.chunked {
		logits /= chunks
	}
	return tokens*saved/tp + logits
}

// savedPerToken is what one layer keeps for backward with flash attention: 34h for the classic layer; a gated one by
// its own widths.
func (t training) savedPerToken(m *model.Model) float64 {
	h, i := float64(m.Hidden), float64(m.Intermediate)
	if !m.Gated {
		return 34 * h
	}
	qkv := h + 2*float64(m.KV.Heads*m.KV.KDim)
	if t.compiled { // fused: norms and the activation are computed again
		return 2 * (4*h + qkv + 3*i)
	}
	return 2*(5*h+qkv+4*i) + 8*h
}

// selectivePerToken keeps the attention and every other matrix product.
func (t training) selectivePerToken(m *model.Model) float64 {
	if !m.Gated {
		return 34 * float64(m.Hidden)
	}
	h := float64(m.Hidden)
	return 2 * (4*h + h + 2*float64(m.KV.Heads*m.KV.KDim) + float64(m.Intermediate))
}
