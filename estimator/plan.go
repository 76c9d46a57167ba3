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

// lines are the launches in the job's command and steps, their config files joined.
func lines(spec job.Spec, params map[string]any, opts Options, warn func(string, ...any)) ([]launch.Line, error) {
	vars := map[string]string{}
	for name, value := range spec.Env {
		if value != nil {
			vars[name] = *value
		}
	}
	commands := [][]string{spec.Command}
	for _, s := range spec.Steps {
		commands = append(commands, s.Command)
	}
	var found []launch.Line
	for _, argv := range commands {
		found = append(found, launch.Parse(substitute(argv, params), vars)...)
	}
	for i := range found {
		if err := joinFiles(&found[i], opts, warn); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func joinFiles(line *launch.Line, opts Options, warn func(string, ...any)) error {
	for _, path := range line.ConfigFiles() {
		if opts.EngineFile == nil {
			warn("%s: the config file %s was not read; its flags are not counted", engineTitle(line.Program), path)
			continue
		}
		data, err := opts.EngineFile(path)
		if err != nil {
			warn("%s: the config file %s could not be read (%v); its flags are not counted", engineTitle(line.Program), path, err)
			continue
		}
		if err := line.Join(data); err != nil {
			return fmt.Errorf("%s %s: %w", engineTitle(line.Program), path, err)
		}
	}
	return nil
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
	p := &plan{}
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
	if err == nil && len(found) > 1 {
		p.warnf("the command starts %d launches; the figures are for the widest", len(found))
	}
	return p, err
}

// scriptFlags are what a launched script is told: its own flags, and what the launcher's config files say.
func scriptFlags(line launch.Line) launch.Flags {
	flags := maps.Clone(line.Flags)
	maps.Copy(flags, line.ScriptFlags())
	return flags
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

// widest is the launch that asks for most, among those of the engine when the spec names one.
func widest(found []launch.Line, engine launch.Program) (launch.Line, bool) {
	if len(found) == 1 && (engine == "" || found[0].Program == engine) {
		return found[0], true
	}
	var best launch.Line
	most := -1
	for _, line := range found {
		if engine != "" && line.Program != engine {
			continue
		}
		n := 0
		if line.Program.Engine() {
			if w, err := engineWorld(line.Program, newSettings(line.Flags, nil)); err == nil {
				n = w.gpus
			}
		} else if w, _, err := launcherWorld(line); err == nil {
			n = w.gpus
		}
		if n > most {
			best, most = line, n
		}
	}
	return best, most >= 0
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
