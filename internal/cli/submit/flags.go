package submit

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/job"
)

// flags are everything a caller may say about a job beside its command. Those given change every spec.
type flags struct {
	set *pflag.FlagSet
	own map[string]bool // names of submit's own flags, beside the global ones

	files  []string
	script string // the text of the file that was submitted by its name

	name, project string
	labels        map[string]string

	gpus          job.Count
	gpuMemory     job.Memory
	gpuModels     []string
	minCapability string
	gpuIDs        []string
	share         string
	slots         int
	cpus          int
	memory        job.Memory
	constraints   map[string]string
	machine       string

	tp, pp, dp, cp, dcp int
	engine, model       string

	frameworks []string

	timeLimit job.Duration
	priority  int
	array     string
	many      many
	box       box
	when      when
	parents   parents

	retries int
	retryOn []string
	backoff backoffValue
	signal  signalValue

	workdir  string
	env      []string
	envFiles []string
	secrets  []string

	idempotencyKey string
	wait, follow   bool
	dryRun, force  bool
}

// reserved flags come with the features they ask for.
var reserved = cli.Reserved{
	Flags: []string{"preemptible", "progress"},
}

func bind(cmd *cobra.Command) *flags {
	f := &flags{set: cmd.Flags()}
	f.bindIdentity()
	f.bindResources()
	f.bindRun()
	f.box.bind(f.set)
	f.bindWhen()
	f.bindParents()
	f.bindMany()
	f.bindAnswer()
	f.bindSlurm()
	f.own = map[string]bool{}
	f.set.VisitAll(func(flag *pflag.Flag) { f.own[flag.Name] = true })
	cmd.Flags().SortFlags = false
	cmd.Flags().SetInterspersed(false) // what follows the first word belongs to the command
	for _, name := range []string{"label", "constraint"} {
		f.set.Lookup(name).DefValue = "" // pflag would show []
	}
	cli.Reserve(cmd, reserved)
	return f
}

func (f *flags) bindIdentity() {
	s := f.set
	s.StringArrayVarP(&f.files, "file", "f", nil, "job spec `FILE`, YAML or JSON, several documents; - is standard input")
	s.StringVarP(&f.name, "name", "J", "", "the job's name")
	s.StringVarP(&f.project, "project", "p", "", "the project it counts for")
	s.StringToStringVar(&f.labels, "label", nil, "label `K=V` to find it by")
}

func (f *flags) bindResources() {
	s := f.set
	s.VarP(textValue{&f.gpus, "N"}, "gpus", "g", "GPUs: a number, or auto: from the model and its parameters")
	s.VarP(textValue{&f.gpuMemory, "SIZE"}, "gpu-memory", "m", "memory per GPU, 20Gi")
	s.StringSliceVar(&f.gpuModels, "gpu-model", nil, "GPU models that will do: A100,H100")
	s.StringVar(&f.minCapability, "min-capability", "", "least CUDA compute capability: 8.0")
	s.StringSliceVar(&f.gpuIDs, "gpu-ids", nil, "these GPUs and no others: UUIDs or indexes")
	s.StringVar(&f.share, "share", "", "exclusive (default), or shared with others that say so")
	s.IntVar(&f.slots, "slots", 0, "slots to take on each shared GPU")
	s.IntVarP(&f.cpus, "cpus", "c", 0, "CPU cores")
	s.Var(textValue{&f.memory, "SIZE"}, "memory", "host memory, 64Gi")
	s.StringToStringVar(&f.constraints, "constraint", nil, "machine label `K=V` that must match")
	s.StringSliceVar(&f.frameworks, "frameworks", nil, "Python frameworks that must see the GPUs: torch,cupy")
	s.StringVar(&f.machine, "machine", "", "only this machine")
	s.IntVar(&f.tp, "tp", 0, "tensor parallel size")
	s.IntVar(&f.pp, "pp", 0, "pipeline parallel size")
	s.IntVar(&f.dp, "dp", 0, "data parallel size")
	s.IntVar(&f.cp, "cp", 0, "context parallel size")
	s.IntVar(&f.dcp, "dcp", 0, "decode context parallel size")
	s.StringVar(&f.engine, "engine", "", "serving engine: vllm, sglang or tensorrt-llm")
	s.StringVar(&f.model, "model", "", "model id or path, for -g auto")
}

func (f *flags) bindRun() {
	s := f.set
	s.VarP(textValue{&f.timeLimit, "TIME"}, "time-limit", "t", "end the run after 12h, 90s, 1-02:00:00")
	s.IntVarP(&f.priority, "priority", "P", 50, "0 to 100, more is sooner")
	s.IntVar(&f.retries, "retries", 0, "try again so many times")
	s.StringSliceVar(&f.retryOn, "retry-on", nil, "try again only after: oom_gpu,exit:33")
	s.Var(&f.backoff, "backoff", "wait between tries, 30s..10m")
	s.Var(&f.signal, "signal", "signal ahead of the time limit or a drain, to save a checkpoint: USR1@120s")
	s.StringVarP(&f.workdir, "workdir", "w", "", "folder to run in (default: here)")
	s.StringArrayVarP(&f.env, "env", "e", nil, "set `K=V`, or take K from here; none or all: what else is captured")
	s.StringArrayVar(&f.envFiles, "env-file", nil, "`FILE` of KEY=VALUE lines")
	s.StringArrayVar(&f.secrets, "secret", nil, "`NAME` of a secret; the machine that runs the job has its value")
	s.StringVar(&f.idempotencyKey, "idempotency-key", "", "submitting with the same key again gives the same job")
}

func (f *flags) bindAnswer() {
	s := f.set
	s.BoolVar(&f.wait, "wait", false, "wait for the end and exit as the job does")
	s.BoolVar(&f.follow, "follow", false, "as --wait, with the job's output as it comes")
	s.BoolVar(&f.dryRun, "dry-run", false, "show what would be sent, send nothing")
	s.BoolVar(&f.force, "force", false, "accept a job that no machine known now could run")
}

func (f *flags) given(name string) bool { return f.set.Changed(name) }

// apply puts the flags that were given on top of a spec.
func (f *flags) apply(s *job.Spec) {
	put(f, "name", &s.Name, f.name)
	put(f, "project", &s.Project, f.project)
	s.Labels = merged(s.Labels, f.labels)

	r := &s.Resources
	put(f, "gpus", &r.GPUs, f.gpus)
	put(f, "gpu-memory", &r.GPUMemory, f.gpuMemory)
	put(f, "gpu-model", &r.GPUModels, f.gpuModels)
	put(f, "frameworks", &r.Frameworks, f.frameworks)
	put(f, "min-capability", &r.MinCapability, f.minCapability)
	put(f, "gpu-ids", &r.GPUIDs, f.gpuIDs)
	put(f, "share", &r.Share, job.Share(f.share))
	put(f, "slots", &r.Slots, f.slots)
	put(f, "cpus", &r.CPUs, f.cpus)
	put(f, "memory", &r.Memory, f.memory)
	put(f, "machine", &r.Machine, f.machine)
	r.Constraints = merged(r.Constraints, f.constraints)

	f.applyModel(s)
	f.applyRetry(s)
	for _, name := range f.secrets {
		if !slices.Contains(s.Secrets, name) {
			s.Secrets = append(slices.Clone(s.Secrets), name)
		}
	}
	if f.given("signal") {
		s.Checkpoint = &job.Checkpoint{Signal: f.signal.name, Before: f.signal.before}
	}
	f.applyBox(s)
	put(f, "time-limit", &s.TimeLimit, f.timeLimit)
	put(f, "priority", &s.Priority, &f.priority)
	put(f, "workdir", &s.Workdir, f.workdir)
	put(f, "idempotency-key", &s.IdempotencyKey, f.idempotencyKey)
}

func (f *flags) applyRetry(s *job.Spec) {
	if !f.given("retries") && !f.given("retry-on") && !f.given("backoff") {
		return
	}
	if s.Retry == nil {
		s.Retry = &job.Retry{}
	}
	put(f, "retries", &s.Retry.Retries, f.retries)
	put(f, "retry-on", &s.Retry.On, f.retryOn)
	if f.given("backoff") {
		s.Retry.Backoff = &job.Backoff{Initial: f.backoff.initial, Max: f.backoff.max}
	}
}

// applyModel writes the parallel sizes under the names of the autotuner rule's parameters.
func (f *flags) applyModel(s *job.Spec) {
	put(f, "engine", &s.Engine, f.engine)
	if f.given("model") {
		s.Model = &job.Model{IDOrPath: f.model}
	}
	sizes := map[string]int{"tp": f.tp, "pp": f.pp, "dp": f.dp, "cp": f.cp, "dcp": f.dcp}
	for name, size := range sizes {
		if !f.given(name) {
			continue
		}
		if s.Parameters == nil {
			s.Parameters = map[string]any{}
		}
		for _, alias := range parameterNames[name] {
			delete(s.Parameters, alias)
		}
		s.Parameters[name+"-size"] = size
	}
}

// parameterNames are the names under which a spec may already carry a size; the flag replaces them all.
var parameterNames = map[string][]string{
	"tp":  {"tensor-parallel-size", "tp-size", "tp_size", "tp"},
	"pp":  {"pipeline-parallel-size", "pp-size", "pp_size", "pp"},
	"dp":  {"data-parallel-size", "dp-size", "dp_size", "dp"},
	"cp":  {"context-parallel-size", "cp-size", "cp_size", "cp"},
	"dcp": {"decode-context-parallel-size", "dcp-size", "dcp_size", "dcp"},
}

func put[T any](f *flags, name string, into *T, value T) {
	if f.given(name) {
		*into = value
	}
}

func merged(base, over map[string]string) map[string]string {
	if base == nil {
		return over
	}
	for k, v := range over {
		base[k] = v
	}
	return base
}

// textValue makes a word of package job a flag.
type textValue struct {
	into interface {
		UnmarshalText([]byte) error
		String() string
	}
	kind string
}

func (v textValue) Set(s string) error { return v.into.UnmarshalText([]byte(s)) }
func (v textValue) Type() string       { return v.kind }
func (v textValue) String() string {
	if d, ok := v.into.(*job.Duration); ok && time.Duration(*d) == 0 {
		return ""
	}
	return v.into.String()
}

// backoffValue is "30s..10m": the first wait and the longest.
type backoffValue struct{ initial, max job.Duration }

func (b *backoffValue) Set(s string) error {
	first, last, isRange := strings.Cut(s, "..")
	if !isRange {
		last = first
	}
	var err error
	if b.initial, err = job.ParseDuration(first); err != nil {
		return err
	}
	b.max, err = job.ParseDuration(last)
	return err
}

func (b *backoffValue) Type() string { return "FIRST..MOST" }
func (b *backoffValue) String() string {
	if b.initial == 0 {
		return ""
	}
	return b.initial.String() + ".." + b.max.String()
}
