package estimator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthq/berth/estimator/launch"
	"github.com/berthq/berth/job"
)

// plan is how a job's GPUs are counted.
type plan struct {
	method string
	world  world
	why    string
	named  bool           // the spec names an engine, if only transformers
	engine launch.Program // "" unless an engine's arithmetic applies
	launch launch.Program // the launcher, if one starts the job
	s      *settings
	model  string
	warn   []string
}

func (p *plan) warnf(format string, args ...any) {
	p.warn = append(p.warn, fmt.Sprintf(format, args...))
}

// parameters are the spec's with the point of the sweep on top; a matrix taken whole asks for its largest point.
func parameters(spec job.Spec, point map[string]any) map[string]any {
	params := maps.Clone(spec.Parameters)
	if params == nil {
		params = map[string]any{}
	}
	for name, values := range spec.Matrix {
		params[name] = values
	}
	maps.Copy(params, point)
	return params
}

// substitute fills {{.tp_size}} and its like from the parameters; a list gives its largest number. What is filled
// at run time ({{.JobID}}) stays.
func substitute(argv []string, params map[string]any) []string {
	if len(params) == 0 || !slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, "{{") }) {
		return argv
	}
	var pairs []string
	for name, value := range params {
		text := job.ParamText(largestValue(value))
		key := strings.ReplaceAll(name, "-", "_")
		pairs = append(pairs, "{{."+key+"}}", text, "{{ ."+key+" }}", text)
	}
	r := strings.NewReplacer(pairs...)
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = r.Replace(a)
	}
	return out
}

func largestValue(value any) any {
	list := listed(value)
	best, most := list[0], -1.0
	for _, item := range list {
		if f, ok := number(item); ok && f > most {
			best, most = item, f
		}
	}
	return best
}

// makePlan finds the strongest source for the number of GPUs.
func makePlan(spec job.Spec, opts Options) (*plan, error) {
	p := &plan{named: spec.Engine != ""}
	params := parameters(spec, opts.Point)
	found, err := lines(spec, params, opts, p.warnf)
	if err != nil {
		return nil, err
	}
	engine, err := namedEngine(spec.Engine)
	if err != nil {
		return nil, err
	}
	line, ok := widest(found, engine)
	if ok && line.Program.Engine() {
		engine = line.Program
	}
	if !ok || engine != "" && line.Program != engine {
		line = launch.Line{Flags: launch.Flags{}}
	}
	p.s = newSettings(line.Flags, params)
	if ok && !line.Program.Engine() {
		p.s = newSettings(scriptFlags(line), params)
	}
	p.model = modelName(spec, line, p.s)
	if wish, ok := spec.Resources.GPUs.Value(); ok {
		return p, p.explicit(wish, engine, line)
	}
	switch {
	case engine != "":
		err = p.byEngine(engine)
	case line.Program != "":
		err = p.byLauncher(line)
	case len(spec.Steps) > 0 && !asksForWorld(params) && spec.Model == nil:
		p.bySteps(spec)
	case wantsGPU(spec, opts):
		err = p.byRule(params)
	default:
		p.method, p.why = MethodDefault, "no GPU asked for (resources.gpus, model, parameters, engine and steps are absent)"
	}
	if err == nil && ok && len(found) > 1 {
		p.addBeside(found)
	}
	return p, err
}

// plainEngines are programs without parallel arithmetic of their own: the rule counts their GPUs.
var plainEngines = []string{"transformers", "huggingface", "hf", "torch", "pytorch", "diffusers", "jax"}

func namedEngine(name string) (launch.Program, error) {
	if name == "" || slices.Contains(plainEngines, strings.ToLower(name)) {
		return "", nil
	}
	if engine, ok := launch.Named(name); ok {
		return engine, nil
	}
	return "", fmt.Errorf("engine: %q is not known; one of vllm, sglang, tensorrt-llm, transformers is needed", clip(name, 60))
}

func modelName(spec job.Spec, line launch.Line, s *settings) string {
	if spec.Model != nil && spec.Model.IDOrPath != "" {
		return spec.Model.IDOrPath
	}
	if line.Model != "" {
		return line.Model
	}
	value, _, ok := s.find([]string{"model", "model-name-or-path", "model-path", "pretrained-model-name-or-path"})
	if text, isText := value.(string); ok && isText {
		return text
	}
	return ""
}

// wantsGPU: gpus are `auto`, by word or because something only a GPU job has is there.
func wantsGPU(spec job.Spec, opts Options) bool {
	r := spec.Resources
	if r.GPUs.IsAuto() || spec.Model != nil || len(spec.Parameters) > 0 || spec.Engine != "" || len(spec.Steps) > 0 {
		return true
	}
	if !r.GPUMemory.IsZero() || len(r.GPUModels) > 0 || len(r.GPUIDs) > 0 || r.MinCapability != "" {
		return true
	}
	return asksForWorld(opts.Point) || asksForWorld(anyMap(spec.Matrix))
}

func anyMap(m map[string][]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// asksForWorld reports a parameter of the rule: a sweep over seeds alone asks for no GPU.
func asksForWorld(params map[string]any) bool {
	for name := range params {
		if isFactor(name) {
			return true
		}
	}
	return false
}
