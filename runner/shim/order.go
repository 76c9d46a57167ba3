package shim

import (
	"strings"
	"time"
)

// Arg0 marks a process as a shim. The argument after it says what for.
const (
	Arg0     = "berth-shim"
	ArgNow   = "now"   // its order is on the way
	ArgSpare = "spare" // its order may come much later
	ArgProbe = "probe" // it ends at once: a cgroup is tried with it
)

// Go is the word to start, the second line the shim is told, with the session's deadline as a number: "go 123456789".
const Go = "go"

// Title is room for what ps shows of a shim once it has its order.
var Title = strings.Repeat(" ", 250)

// SparesDir is the name of the folder in which folders of shims without an order lie.
const SparesDir = "spares"

// The files of a run's folder that the worker and the shim share.
const (
	LockFile    = "lock"
	StateFile   = "state.json"
	ControlFile = "control"
	LogFile     = "shim.log"
	ExitFile    = "exit.json"
	StepsFile   = "steps.json"
	JobDir      = "job"
)

// ResultFile is where the job may leave JSON for its result.
func ResultFile(dir string) string { return dir + "/" + JobDir + "/result.json" }

// CleanResultFile is the same without the values of secrets, made by the shim when the run has any.
func CleanResultFile(dir string) string { return dir + "/result.json" }

// MaxResult is how much of a result file is read.
const MaxResult = 256 << 10

// ProgressFile is where the job may write how far it is.
func ProgressFile(dir string) string { return dir + "/" + JobDir + "/progress" }

// ScriptFile is the job's script as it was submitted.
func ScriptFile(dir string) string { return dir + "/" + JobDir + "/script" }

// StopReasonFile is where the job finds out why it is being stopped: the cause on the first line, a sentence on the
// second.
func StopReasonFile(dir string) string { return dir + "/" + JobDir + "/stop-reason" }

// Order is what the shim is told first on its standard input, a socket; the lock files come with it. The shim was started in
// the run's folder, which got its place and name before the order came. Times are on the boot clock ([proc.Boottime]).
type Order struct {
	ID      string   `json:"id"`
	Folder  string   `json:"folder"`
	Mark    string   `json:"mark"` // KEY=value in the environment of everything the run starts
	Command []string `json:"command"`
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	Legacy  []string `json:"legacy,omitempty"` // v1 cgroups that limit the run

	Steps []Step `json:"steps,omitempty"` // of a pipeline, instead of Command
	First int    `json:"first,omitempty"` // the step to begin with

	Account *Account `json:"account,omitempty"` // nil: as the shim itself

	Secrets []string `json:"secrets,omitempty"` // values that are kept out of the log and the result

	StopSignal       int           `json:"stop_signal"`
	Grace            time.Duration `json:"grace"`
	SessionGrace     time.Duration `json:"session_grace"`
	TimeLimit        time.Duration `json:"time_limit,omitempty"`
	Deadline         time.Duration `json:"-"` // of the worker's session; it comes with the word to start
	CheckpointSignal int           `json:"checkpoint_signal,omitempty"`
	CheckpointBefore time.Duration `json:"checkpoint_before,omitempty"`
	LogCap           int64         `json:"log_cap,omitempty"`
	After            []string      `json:"after,omitempty"` // run when nothing of the tree is left, before the locks go
}

// State is who runs, for the worker that started the run and for those after it.
type State struct {
	BootID      string        `json:"boot_id"`
	Shim        Process       `json:"shim"`
	Job         Process       `json:"job"`
	StartedAt   time.Time     `json:"started_at"`
	StartedBoot time.Duration `json:"started_boot"`
}

// Process is a pid that can be told from a later process with the same pid.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Report is the one answer to an order, on the same socket: the state, or why the job could not be started.
type Report struct {
	State  *State `json:"state,omitempty"`
	Code   int    `json:"code,omitempty"` // as a shell would exit: 126, 127; 0 when the machine is to blame
	Reason string `json:"reason,omitempty"`
}

// Exit is how a run ended, as the shim saw it.
type Exit struct {
	Code         int           `json:"code"` // 128+n when a signal ended it
	Signal       int           `json:"signal,omitempty"`
	Cause        string        `json:"cause,omitempty"` // "" = it ended by itself
	Why          string        `json:"why,omitempty"`
	StartedAt    time.Time     `json:"started_at"`
	Elapsed      time.Duration `json:"elapsed"`
	OOMKills     int           `json:"oom_kills,omitempty"`
	CPUSeconds   float64       `json:"cpu_seconds"`
	PeakMemoryMB *int64        `json:"peak_memory_mb,omitempty"`
	LogBytes     int64         `json:"log_bytes"`
	LogDropped   int64         `json:"log_dropped,omitempty"`
	Warnings     []string      `json:"warnings,omitempty"`
	Survivors    []int         `json:"survivors,omitempty"` // processes that would not die

	Steps   []StepState `json:"steps,omitempty"`
	Refused string      `json:"refused,omitempty"` // why a later step could not be started
}

// The causes a shim gives by itself; others come with a stop command.
const (
	CauseTimeout     = "timeout"
	CauseSessionLost = "session_lost"
	CauseDrained     = "drained"
)
