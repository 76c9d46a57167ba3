package estimator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berthq/berth/estimator/launch"
	"github.com/berthq/berth/estimator/model"
	"github.com/berthq/berth/job"
)

// found is a model's config with where it came from.
type found struct {
	config model.Config
	source string
	// stated: the job itself holds the config or names its file. A name that a table happens to know is not that.
	stated bool
}

// lookUp finds the config: in the spec, through the caller, in the built-in table.
func lookUp(spec job.Spec, opts Options, name string) (found, error) {
	if spec.Model != nil && len(spec.Model.Config) > 0 {
		return found{config: spec.Model.Config, source: "model.config", stated: true}, nil
	}
	if name == "" {
		return found{}, nil
	}
	if opts.Config != nil {
		if file, ok := opts.Config(name); ok {
			c, err := model.Decode(file.JSON)
			if err != nil {
				return found{}, fmt.Errorf("%s: %w", clip(name, 200), err)
			}
			return found{config: c, source: file.Source, stated: file.Local}, nil
		}
	}
	if c, ok := model.Known(name); ok {
		return found{config: c, source: "built-in table"}, nil
	}
	return found{}, nil
}

// computation is a memory estimate for one way to run a model.
type computation struct {
	m        *model.Model
	shard    shard
	load     load
	training *training
	name     string
	source   string
	stated   bool
}

// newComputation reads the model; nil without an error when nothing can be computed, which the plan is told.
func newComputation(spec job.Spec, opts Options, p *plan) (*computation, error) {
	f, err := lookUp(spec, opts, p.model)
	if err != nil {
		return nil, err
	}
	if f.config == nil {
		return nil, nil
	}
	m, err := model.Read(f.config, p.model)
	if errors.Is(err, model.ErrUnknown) {
		if known, ok := model.Known(p.model); ok && f.stated {
			m, err = model.Read(known, p.model)
			f.source = "built-in table (" + f.source + " names no architecture)"
		}
	}
	if errors.Is(err, model.ErrUnknown) {
		p.warnf("%v: memory by the autotuner rule", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("model %s (%s): %w", clip(p.model, 200), f.source, err)
	}
	c := &computation{m: m, name: p.model, source: f.source, stated: f.stated}
	return c, c.read(p)
}

func (c *computation) read(p *plan) error {
	quant, plain, err := formats(p, c.m)
	if err != nil {
		return err
	}
	rank := p.world.rank.normal()
	if p.method == MethodExplicit && p.engine == "" && p.launch == "" && !trains(p.s) {
		rank = ranks{pp: p.world.gpus}.normal() // layers spread over the GPUs, as device maps do it
	}
	c.shard = shard{m: c.m, rank: rank, quant: quant, plain: plain}
	if p.engine == "" && trains(p.s) {
		replicas := int64(max(1, p.world.gpus/max(1, rank.tp*rank.pp)))
		t, err := readTraining(p.s, c.m, replicas)
		if err != nil {
			return err
		}
		if t.method == "qlora" && quant.Bits == 0 {
			c.shard.quant, _ = model.NamedQuant("nf4")
		}
		c.training = &t
		return nil
	}
	c.load, err = readLoad(p.s, c.m, p.engine)
	return err
}

// formats reads in which numbers the weights are held: what the job says, else what the config says.
func formats(p *plan, m *model.Model) (model.Quant, float64, error) {
	quant := m.Quant
	if name := p.s.text("quantization", "quant", "q", "quantize", "load-format-quant"); name != "" {
		asked, ok := model.NamedQuant(name)
		if !ok {
			return quant, 0, fmt.Errorf("quantization: %w: %q is not known; fp8, int8, awq, gptq, nf4, mxfp4 or none is needed", ErrValue, clip(name, 40))
		}
		// a checkpoint that is quantised says more exactly how than the flag does
		if quant.Bits == 0 || asked.Bits == 0 || asked.Name != quant.Name && family(asked.Name) != family(quant.Name) {
			quant = asked
		}
	}
	if p.s.on("load-in-4bit") {
		quant, _ = model.NamedQuant("nf4")
	} else if p.s.on("load-in-8bit") {
		quant, _ = model.NamedQuant("int8")
	}
	plain := model.DTypeBytes(m.DType)
	switch d := p.s.text("dtype", "torch-dtype"); d {
	case "float16", "bfloat16", "half", "fp16", "bf16":
		plain = 2
	case "float32", "float", "fp32":
		plain = 4
	default:
		if p.engine != "" {
			plain = 2 // engines turn 32-bit checkpoints into 16 bit
		}
	}
	return quant, plain, nil
}

// family joins the names of one width: --quantization gptq on a config that says gptq-int8.
func family(name string) string {
	switch name {
	case "gptq", "awq", "gptq-int8", "int4", "auto-round":
		return "grouped"
	}
	return name
}

// need is the memory of the fullest GPU.
func (c *computation) need() memory { return c.at(c.shard, c.training) }

func (c *computation) at(s shard, t *training) memory {
	if t != nil {
		return trainingMemory(s, *t)
	}
	return inference(s, c.load)
}

// breakdown shows every term.
func (c *computation) breakdown(n memory) *Breakdown {
	b := &Breakdown{
		Model: c.name, Architecture: c.m.Architecture, ConfigSource: c.source, Mode: "inference",
		ParamCount: c.m.Params(), WeightsMB: megabytes(n.weights), KVCacheMB: megabytes(n.kv), ActivationsMB: megabytes(n.activations),
		GradientsMB: megabytes(n.gradients), OptimizerMB: megabytes(n.optimizer), RuntimeMB: megabytes(n.runtime),
	}
	if active := c.m.ActiveParams(); active != b.ParamCount {
		b.ActiveParamCount = active
	}
	kvBytes := 2.0
	if c.training != nil {
		b.Mode = "training"
	} else {
		kvBytes = c.load.kvBytes
		b.Context, b.Concurrency, b.ReservesShare = c.load.context, c.load.sequences, c.load.share
	}
	b.KVBytesPerToken = c.m.KVBytesPerToken(kvBytes)
	b.TotalMB = b.WeightsMB + b.KVCacheMB + b.ActivationsMB + b.GradientsMB + b.OptimizerMB + b.RuntimeMB
	b.Terms = c.terms(n, b)
	return b
}

func (c *computation) terms(n memory, b *Breakdown) []Term {
	r := c.shard.rank
	terms := []Term{{"weights", b.WeightsMB, c.weightsWhy(n)}}
	if c.training != nil {
		t := c.training
		terms = append(terms,
			Term{"gradients", b.GradientsMB, fmt.Sprintf("%g bytes each", t.gradient)},
			Term{"optimizer", b.OptimizerMB, fmt.Sprintf("%s: %g bytes each, zero stage %d over %d", t.optName, t.optimizer, t.zero, t.replicas)},
			Term{"activations", b.ActivationsMB, fmt.Sprintf("batch %d x %d tokens, recompute %s, and the logits", t.batch, t.sequence, t.recompute)})
	} else {
		kv := fmt.Sprintf("%d x %d tokens (%s) x %d B over %d layers", b.Concurrency, b.Context, c.load.contextWhy, b.KVBytesPerToken, c.m.KV.Layers())
		if c.m.KV.Window > 0 {
			kv += fmt.Sprintf(", %d of them hold at most %d tokens", c.m.KV.Window, c.m.KV.WindowSize)
		}
		if c.m.KV.Layers() == 0 {
			kv = "no cache in this architecture"
		}
		terms = append(terms, Term{"kv_cache", b.KVCacheMB, kv},
			Term{"activations", b.ActivationsMB, c.activationsWhy()})
	}
	runtime := "CUDA context"
	if r.tp*r.pp*r.dp > 1 {
		runtime += ", communicators"
	}
	if n.graphs > 0 {
		runtime += ", CUDA graphs"
	}
	return append(terms, Term{"runtime", b.RuntimeMB, runtime}, Term{"total", b.TotalMB, "per GPU"})
}

func (c *computation) activationsWhy() string {
	switch c.m.Kind {
	case model.Diffusion, model.Composite:
		return fmt.Sprintf("the autoencoder at full size, %d at a time", c.load.sequences)
	case model.Vision:
		return fmt.Sprintf("%d pictures of %d patches", c.load.sequences, c.m.TowerTokens)
	case model.Decoder, model.Encoder, model.Seq2Seq, model.Recurrent:
	}
	return fmt.Sprintf("peak of one step of %d tokens", c.load.prefill)
}

func (c *computation) weightsWhy(n memory) string {
	format := fmt.Sprintf("%g-bit", 8*c.shard.plain)
	if c.shard.quant.Bits > 0 {
		format = fmt.Sprintf("%s (%.3g bits), the rest %s", c.shard.quant.Name, c.shard.quant.Bits, format)
	}
	text := fmt.Sprintf("%.4g B parameters at %s", float64(c.m.Params())/1e9, format)
	if n.weightsWhy != "" {
		text = fmt.Sprintf("%.4g B parameters; %s", float64(c.m.Params())/1e9, n.weightsWhy)
	}
	var split []string
	r := c.shard.rank
	for _, d := range []struct {
		name string
		n    int
	}{{"tp", r.tp}, {"pp", r.pp}, {"ep", r.ep}} {
		if d.n > 1 {
			split = append(split, fmt.Sprintf("%s %d", d.name, d.n))
		}
	}
	if len(split) > 0 {
		text += ", split by " + strings.Join(split, ", ")
	}
	return text
}

// fits says for each card whether the job runs on it, and how many of it the model needs at least.
func (c *computation) fits(cards []Card, n memory) []Fit {
	out := make([]Fit, 0, len(cards))
	var scaled []memory
	for k := 1; k <= maxScale; k *= 2 {
		scaled = append(scaled, c.scaled(k))
	}
	for _, card := range cards {
		f := Fit{Card: card.Name, MemoryMB: card.MemoryMB, Fits: c.holds(card, n)}
		for i, need := range scaled {
			if c.holds(card, need) {
				f.GPUsNeeded = 1 << i
				break
			}
		}
		out = append(out, f)
	}
	return out
}

// maxScale is the widest machine looked at.
const maxScale = 64

// scaled is the need when the model runs on k GPUs: served by tensor parallel, trained by ZeRO-3.
func (c *computation) scaled(k int) memory {
	s := c.shard
	if c.training != nil {
		t := *c.training
		t.replicas, t.zero = int64(k), 3
		s.rank = ranks{}.normal()
		return c.at(s, &t)
	}
	s.rank = ranks{tp: k}.normal()
	if c.load.engine == launch.Program("") && c.m.Kind != model.Decoder {
		s.rank = ranks{pp: k}.normal()
	}
	return c.at(s, nil)
}

// holds: all of it within the card, and what the engine budgets within its share.
func (c *computation) holds(card Card, n memory) bool {
	total := megabytes(n.total())
	if total > card.MemoryMB {
		return false
	}
	share := c.load.share
	if c.training != nil || share == 0 {
		return true
	}
	return float64(total)-n.graphs/mib <= share*float64(card.MemoryMB)
}
