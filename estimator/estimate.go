package estimator

import (
	"fmt"
	"slices"

	"github.com/berthq/berth/job"
)

// Estimate is what the job needs of a machine, and why. An error says what in the spec is wrong, or names the
// engine's rule that refuses it (ErrRefused).
func Estimate(spec job.Spec, opts Options) (Answer, error) {
	p, err := makePlan(spec, opts)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{GPUs: p.world.gpus, Method: p.method, Why: p.why, Point: opts.Point}
	if a.GPUs > 0 {
		if err := a.memory(spec, opts, p); err != nil {
			return Answer{}, err
		}
	}
	a.Warnings = p.warn
	a.requirements = requirements(spec, a, p)
	return a, nil
}

// memory fills in the memory per GPU from the strongest source.
func (a *Answer) memory(spec job.Spec, opts Options, p *plan) error {
	c, err := newComputation(spec, opts, p)
	if err != nil {
		return err
	}
	if c != nil {
		need := c.need()
		a.Breakdown = c.breakdown(need)
		cards := opts.Cards
		if cards == nil {
			cards = DefaultCards
		}
		a.Fits = c.fits(cards, need)
	}
	if mb, ok := spec.Resources.GPUMemory.MB(); ok {
		a.GPUMemoryMB = mb
		a.Why += fmt.Sprintf("; resources.gpu_memory: %d MiB", mb)
		if c != nil && a.Breakdown.TotalMB > mb {
			p.warnf("the computation comes to %d MiB per GPU, you ask for %d", a.Breakdown.TotalMB, mb)
		}
		return nil
	}
	if c != nil && c.decides(p) {
		a.computed(p, c, spec.Resources.Share == job.Shared)
		return nil
	}
	auto := a.Method != MethodExplicit || spec.Resources.GPUMemory.IsAuto() || spec.Resources.Share == job.Shared
	if p.model == "" && !auto {
		return nil // exclusive, GPUs by number: the whole card, whatever it holds
	}
	mb, why := autotunerMemory(p.model)
	a.GPUMemoryMB = mb
	a.Why += fmt.Sprintf("; %d MiB each by the autotuner rule (%s)", mb, why)
	if c != nil && a.Breakdown.TotalMB > mb {
		p.warnf("the computation from the %s comes to %d MiB per GPU; name the engine to go by it", c.source, a.Breakdown.TotalMB)
	}
	return nil
}

// decides: the computation counts when the job says how the model runs, or brings its config. For a name alone the
// rule's founding figures stand.
func (c *computation) decides(p *plan) bool {
	return p.named || p.engine != "" || c.stated || c.training != nil || p.method == MethodExplicit || p.launch != ""
}

func (a *Answer) computed(p *plan, c *computation, shared bool) {
	b := a.Breakdown
	a.GPUMemoryMB = b.TotalMB
	if a.Method == MethodAutotuner {
		a.Method = MethodComputed
	}
	a.Why += fmt.Sprintf("; %d MiB each, computed from the config (%s): weights %d", b.TotalMB, c.source, b.WeightsMB)
	if b.Mode == "training" {
		a.Why += fmt.Sprintf(", gradients %d, optimizer %d", b.GradientsMB, b.OptimizerMB)
	} else {
		a.Why += fmt.Sprintf(", KV cache %d", b.KVCacheMB)
	}
	a.Why += fmt.Sprintf(", activations %d, runtime %d", b.ActivationsMB, b.RuntimeMB)
	if b.ReservesShare > 0 && shared {
		p.warnf("%s takes %g %% of whatever card it gets: run it exclusive, or set its memory share to leave room for others", engineTitle(p.engine), 100*b.ReservesShare)
	}
}

// requirements joins the answer with the wishes that need no estimate.
func requirements(spec job.Spec, a Answer, p *plan) job.Requirements {
	r := spec.Resources
	memory, _ := r.Memory.MB()
	req := job.Requirements{
		GPUs: a.GPUs, GPUMemoryMB: a.GPUMemoryMB,
		Share: r.Share, Slots: r.Slots, GPUModels: r.GPUModels, MinCapability: r.MinCapability, GPUIDs: r.GPUIDs,
		Balanced: r.Balanced, CPUs: r.CPUs, MemoryMB: memory, Frameworks: frameworks(spec), Constraints: r.Constraints,
		Machine: r.Machine, Container: spec.Image != "", WorldSize: p.world.gpus, Model: p.model, Method: a.Method, Why: a.Why,
	}
	if req.Share == job.Exclusive {
		req.Share = "" // the default has one spelling
	}
	return req
}

func frameworks(spec job.Spec) []string {
	all := slices.Clone(spec.Resources.Frameworks)
	for _, s := range spec.Steps {
		all = append(all, s.Requires()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
