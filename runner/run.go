package runner

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner/cgroup"
)

// Runner starts runs and finds those that an earlier worker started. A run always has a shim; what the shim starts, a
// process or a container, is the implementation's business.
type Runner interface {
	Start(ctx context.Context, run Run) (*Handle, error)
	Prepare(ctx context.Context, run Run) (*Ready, error)
	Adopt(ctx context.Context) ([]*Handle, []Lost, error)
	Isolation() Isolation
	Close() error
}

// Run is what to run, and within which limits. Command and Env are final; see [Expand] and [Environment].
type Run struct {
	ID       string // "number[.index].attempt"; names the run's folder
	StateDir string // "" = the runner's place for it
	Command  []string
	Env      []string
	Dir      string

	Steps     []Step // of a pipeline, instead of Command: one after the other until one fails
	FirstStep int    // the step to begin with; those before it are not run

	Script string // the text of [ScriptFile]; "": the run has none

	Account *Account // as whom; nil: as the worker itself

	// Secrets are values in the environment that must not be seen: the shim keeps them out of the log and the result.
	Secrets []string

	// ExtraFiles are held open by the shim as long as it lives: the lock files of the devices. The job does not get
	// them. The caller keeps its own.
	ExtraFiles []*os.File

	Grace        time.Duration // from the stop signal to the kill; 0 = 30 s, negative = none
	SessionGrace time.Duration // the same when the session is over, at most Grace; 0 = Grace
	StopSignal   string        // "SIGTERM" when empty
	TimeLimit    time.Duration // 0 = none
	Checkpoint   *job.Checkpoint
	Deadline     time.Time // of the worker's session, see Handle.Extend; zero = none
	LogCap       int64     // bytes of output kept; 0 = 1 GiB
	Limits       Limits    // as far as the machine can enforce them
	GPUMinors    *[]int    // only these of the machine's GPUs can be opened, as far as the machine can enforce it; nil: any
	Note         []byte    // the worker's own words, kept beside the run for whoever adopts it

	// After takes away what the run has outside of its process tree: a command of the worker's own, with an absolute
	// path and an empty environment, run once no process of the run is left, while the lock files are still held. It
	// may run more than once, and bounds its own time.
	After []string
}

// Limits of one run on its host. Zero means none.
type Limits = cgroup.Limits

// DefaultGrace is what a run gets between the stop signal and the kill.
const DefaultGrace = 30 * time.Second

// Cause is why a run was ended. Empty: it ended by itself.
type Cause string

// The causes.
const (
	Timeout     Cause = "timeout"
	Cancelled   Cause = "cancelled"
	SessionLost Cause = "session_lost"
	Drained     Cause = "drained"
	Preempted   Cause = "preempted"
	ShimLost    Cause = "shim_lost"
)

// FullIsolation is the level at which the kernel limits and counts every run.
const FullIsolation = string(cgroup.Full)

// Isolation is how well the machine can hold a run together.
type Isolation struct {
	Level       string   // cgroup-v2, cgroup-hybrid, cgroup-v2-fence, process-group
	Text        string   // for people
	Controllers []string // that limit and count a run
	Devices     bool     // a run can open only the GPUs it was given
}

// StartError is why a job could not be started: a mistake in the job, or something this machine lacks. Code is what a
// shell would have exited with.
type StartError struct {
	Code   int // 126 cannot be executed, 127 not found
	Reason string
}

func (e *StartError) Error() string { return e.Reason }

// Lost is a run of an earlier worker of which nothing can be waited for any more.
type Lost struct {
	ID   string
	Dir  string
	Note []byte
	Why  string
	// Newer says that a newer Berth keeps the run, in a form unknown here: it may be under way. It is to be left as it is.
	// Its shim ends it when the session is over, unless a worker that knows the form is back before.
	Newer bool
}

// Remove forgets the lost run, once the worker has settled it.
func (l Lost) Remove() error {
	if l.Newer {
		return fmt.Errorf("run %s is a newer Berth's: %s stays", l.ID, l.Dir)
	}
	return os.RemoveAll(l.Dir)
}
