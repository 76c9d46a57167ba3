package estimator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berthq/berth/estimator/launch"
	"github.com/berthq/berth/job"
)

// explicit takes the wish, and compares it with what the engine would say.
func (p *plan) explicit(wish int, engine launch.Program, line launch.Line) error {
	p.method, p.why = MethodExplicit, fmt.Sprintf("resources.gpus: %d", wish)
	p.engine = engine
	p.world = world{gpus: wish, rank: ranks{tp: max(1, wish), pp: 1, dp: 1, ep: 1, dcp: 1}}
	var computed world
	var err error
	switch {
	case engine != "":
		computed, err = engineWorld(engine, p.s)
	case line.Program != "":
		p.launch = line.Program
		computed, _, err = launcherWorld(line)
		p.world.rank = ranks{tp: 1, pp: 1, dp: max(1, wish), ep: 1, dcp: 1}
	default:
		return nil
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrValue) {
		p.warnf("%v; your resources.gpus is taken all the same", err)
		return nil
	}
	if err != nil {
		return err
	}
	if computed.gpus <= wish {
		p.world.rank = computed.rank
	}
	if computed.gpus > wish {
		p.warnf("%s starts on %d GPUs (%s), you ask for %d", engineTitle(program(engine, line)), computed.gpus, computed.text, wish)
	}
	return nil
}

func program(engine launch.Program, line launch.Line) launch.Program {
	if engine != "" {
		return engine
	}
	return line.Program
}

func (p *plan) byEngine(engine launch.Program) error {
	w, err := engineWorld(engine, p.s)
	if err != nil {
		return err
	}
	p.engine, p.world, p.method = engine, w, string(engine)
	p.why = fmt.Sprintf("%s: %s = %s", engineTitle(engine), w.text, gpuCount(w.gpus))
	return nil
}

func (p *plan) byLauncher(line launch.Line) error {
	w, note, err := launcherWorld(line)
	if err != nil {
		return err
	}
	if err := p.splitModel(&w.rank, w.gpus); err != nil {
		return err
	}
	p.launch, p.world, p.method = line.Program, w, string(line.Program)
	p.why = fmt.Sprintf("%s: %s = %s", line.Program, w.text, gpuCount(w.gpus))
	if note != "" {
		p.warnf("%s: %s", line.Program, note)
	}
	return nil
}

// splitModel reads over how many of the launched processes one model is spread; the rest are its replicas.
func (p *plan) splitModel(r *ranks, gpus int) error {
	tp, err := p.s.sizes("tensor-model-parallel-size", "tensor-parallel-size", "tensor-parallel-degree", "tp-size", "tp")
	if err != nil {
		return err
	}
	pp, err := p.s.sizes("pipeline-model-parallel-size", "pipeline-parallel-size", "pipeline-parallel-degree", "pp-size", "pp")
	if err != nil {
		return err
	}
	wide, deep := slices.Max(append(tp, 1)), slices.Max(append(pp, 1))
	if gpus%(wide*deep) != 0 {
		p.warnf("tp %d x pp %d does not divide the %d processes; counted as replicas", wide, deep, gpus)
		return nil
	}
	r.tp, r.pp, r.dp = wide, deep, gpus/(wide*deep)
	return nil
}

func (p *plan) byRule(params map[string]any) error {
	w, err := autotunerWorld(params)
	if err != nil {
		return err
	}
	p.world, p.method = w, MethodAutotuner
	p.why = fmt.Sprintf("autotuner rule: %s = %s", w.text, gpuCount(w.gpus))
	for _, f := range factors {
		for name := range params {
			if !isFactor(name) && launch.Canonical(name) == f.names[0] {
				p.warnf("parameters.%s is not a name of the autotuner rule and was not counted; write %s, or name the engine", name, f.names[0])
			}
		}
	}
	return nil
}

// bySteps: a pipeline needs a GPU when any of its steps does, and all its steps share it.
func (p *plan) bySteps(spec job.Spec) {
	p.method = MethodPipeline
	for i, step := range spec.Steps {
		if kind := step.GPUMemory(); kind != "" {
			p.world = world{gpus: 1, rank: ranks{}.normal()}
			p.why = fmt.Sprintf("pipeline: step %s holds %s arrays, and all steps share its GPU", stepName(step, i), kind)
			return
		}
	}
	if spec.Resources.GPUs.IsAuto() {
		p.world = world{gpus: 1, rank: ranks{}.normal()}
		p.why = "pipeline: gpus: auto, and all steps share one GPU"
		return
	}
	p.why = "pipeline: no step has a GPU memory type"
}

func stepName(step job.Step, i int) string {
	if step.Name != "" {
		return fmt.Sprintf("%q", clip(step.Name, 60))
	}
	return fmt.Sprint(i + 1)
}

func gpuCount(n int) string {
	switch n {
	case 0:
		return "no GPU"
	case 1:
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}
