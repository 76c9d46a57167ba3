package job

import "time"

// Spec is what the user wants run, as submitted; it is never changed. Every field is optional but Command (or Steps).
type Spec struct {
	Name    string            `json:"name,omitempty"`
	Project string            `json:"project,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	Kind  Kind   `json:"kind,omitempty"`  // "" runs a command; lease holds GPUs for somebody
	Lease *Lease `json:"lease,omitempty"` // of kind lease

	Command Command `json:"command,omitempty"`
	Steps   []Step  `json:"steps,omitempty"`
	Script  string  `json:"script,omitempty"` // the text of a file that each attempt finds at {{.Script}}

	Matrix  map[string][]any `json:"matrix,omitempty"`
	Exclude []map[string]any `json:"exclude,omitempty"`
	Points  []map[string]any `json:"points,omitempty"` // one task for each, instead of a matrix: the rows of a table
	Array   string           `json:"array,omitempty"`

	Model      *Model         `json:"model,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
	Engine     string         `json:"engine,omitempty"`

	Resources Resources `json:"resources,omitzero"`

	Image     string     `json:"image,omitempty"`
	Volumes   []string   `json:"volumes,omitempty"`
	Container *Container `json:"container,omitempty"`

	Workdir string             `json:"workdir,omitempty"`
	Env     map[string]*string `json:"env,omitempty"` // nil value: taken from the submitter's environment
	EnvFile []string           `json:"env_file,omitempty"`
	Secrets []string           `json:"secrets,omitempty"` // names only

	Priority    *int       `json:"priority,omitempty"` // 0..100, default 50
	Hold        bool       `json:"hold,omitempty"`     // queued, and not started until it is released
	Preemptible bool       `json:"preemptible,omitempty"`
	TimeLimit   Duration   `json:"time_limit,omitempty"`
	Begin       *time.Time `json:"begin,omitempty"`
	Deadline    *time.Time `json:"deadline,omitempty"`
	WaitTimeout Duration   `json:"wait_timeout,omitempty"`

	DependsOn     []Dependency `json:"depends_on,omitempty"`      // all of them
	IfParentFails string       `json:"if_parent_fails,omitempty"` // cancel (default), wait
	SameGPUAs     string       `json:"same_gpu_as,omitempty"`     // a preference: where that job ran last

	Retry      *Retry      `json:"retry,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	Stop       *Stop       `json:"stop,omitempty"`
	Idle       *Idle       `json:"idle,omitempty"`
	Telemetry  *Telemetry  `json:"telemetry,omitempty"`

	FailReasons []FailReason `json:"fail_reasons,omitempty"` // what the job's own output says of its end

	Group *Group `json:"group,omitempty"`

	IdempotencyKey string   `json:"idempotency_key,omitempty"`
	Notify         []string `json:"notify,omitempty"`
}

// Resources are the wishes as written; the estimator turns them into Requirements.
type Resources struct {
	GPUs          Count             `json:"gpus,omitzero"`       // absent = 0; "auto"
	GPUMemory     Memory            `json:"gpu_memory,omitzero"` // per GPU; "auto"
	GPUModels     []string          `json:"gpu_models,omitempty"`
	MinCapability string            `json:"min_capability,omitempty"` // "8.0"
	GPUIDs        []string          `json:"gpu_ids,omitempty"`
	Share         Share             `json:"share,omitempty"`
	Slots         int               `json:"slots,omitempty"` // slots per GPU under share: shared, default 1
	Balanced      bool              `json:"balanced,omitempty"`
	CPUs          int               `json:"cpus,omitempty"`
	Memory        Memory            `json:"memory,omitzero"` // host memory
	Frameworks    []string          `json:"frameworks,omitempty"`
	Constraints   map[string]string `json:"constraints,omitempty"`
	Machine       string            `json:"machine,omitempty"`
}

// Share says whether a job tolerates others on its GPUs.
type Share string

// Exclusive is the default.
const (
	Exclusive Share = "exclusive"
	Shared    Share = "shared"
)

// Model names what is served or trained; the estimator reads it.
type Model struct {
	IDOrPath string         `json:"id_or_path,omitempty"`
	Config   map[string]any `json:"config,omitempty"` // config.json, inlined by submit when it finds one
}

// Step is one stage of a pipeline; all steps run on the same GPUs.
type Step struct {
	Name       string   `json:"name,omitempty"`
	Command    Command  `json:"command,omitempty"`
	Input      string   `json:"input,omitempty"`  // memory type: numpy, cupy, torch, tensorflow, jax, pyclesperanto
	Output     string   `json:"output,omitempty"` // likewise
	Frameworks []string `json:"frameworks,omitempty"`

	Env map[string]string `json:"env,omitempty"` // beside the job's
}

// Container settings beside Image.
type Container struct {
	ShmSize Memory `json:"shm_size,omitzero"` // of /dev/shm; absent = the engine's default
	Network string `json:"network,omitempty"` // none, host, bridge or a network of the engine; "" = the engine's default
	User    string `json:"user,omitempty"`    // uid[:gid] or a name in the image; "" = who the worker runs jobs as
	Pull    string `json:"pull,omitempty"`    // missing (default), always, never
}

// Retry says what is tried again, and when.
type Retry struct {
	Retries int      `json:"retries,omitempty"`
	Backoff *Backoff `json:"backoff,omitempty"`
	On      []string `json:"on,omitempty"`
	NeverOn []string `json:"never_on,omitempty"`
	Resume  bool     `json:"resume,omitempty"` // of a pipeline: begin with the step that did not succeed
}

// Backoff grows from Initial by Factor to Max.
type Backoff struct {
	Initial Duration `json:"initial,omitempty"`
	Max     Duration `json:"max,omitempty"`
	Factor  float64  `json:"factor,omitempty"`
}

// FailReason says what a line of the job's output means when it does not end well. The first that matches wins, also
// over what Berth itself would have read.
type FailReason struct {
	Match   string  `json:"match,omitempty"`   // a regular expression (RE2), on one line
	Outcome Outcome `json:"outcome,omitempty"` // failed (the default), oom_gpu, oom_host or timeout
	Reason  string  `json:"reason,omitempty"`
}

// Checkpoint asks for a signal ahead of the stop signal, when the time limit or a drain ends the run: time to save what
// BERTH_CHECKPOINT_DIR keeps for the next attempt.
type Checkpoint struct {
	Signal string   `json:"signal,omitempty"` // default SIGUSR1
	Before Duration `json:"before,omitempty"` // how long ahead; default 60 s
}

// Stop says how the run is asked to end, whatever the reason.
type Stop struct {
	Signal string   `json:"signal,omitempty"` // to every process of the run; default SIGTERM
	Grace  Duration `json:"grace,omitempty"`  // from that signal to the kill; default the worker's, 30 s
}

// Idle says what happens to a job whose GPUs do nothing.
type Idle struct {
	Below  float64  `json:"below,omitempty"` // percent
	For    Duration `json:"for,omitempty"`
	Action string   `json:"action,omitempty"` // warn, stop
}

// Telemetry settings of one run.
type Telemetry struct {
	Interval Duration `json:"interval,omitempty"`
	Series   string   `json:"series,omitempty"` // summary, none
}

// Group limits the tasks of an array, a matrix or a list of points.
type Group struct {
	MaxConcurrent int `json:"max_concurrent,omitempty"` // tasks under way at a time
	MaxGPUs       int `json:"max_gpus,omitempty"`       // GPUs that the tasks under way may have together
	MaxFailures   int `json:"max_failures,omitempty"`   // when so many tasks have failed, the rest is not started
}
