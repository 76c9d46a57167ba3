package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/shim"
	"github.com/berthq/berth/runner/spool"
	"golang.org/x/sys/unix"
)

// Exit is how a run ended, as data.
type Exit struct {
	Code   int    // 128+n when a signal ended the command; -1 when nobody saw it end
	Signal string // "SIGKILL"
	Cause  Cause  // "" = it ended by itself
	Why    string // the cause in a sentence

	NotStarted *StartError // the command stood for something else, a container, which was the job's fault not to start
	MachineErr error       // likewise, the machine's fault

	StartedAt, EndedAt time.Time // EndedAt is StartedAt plus what a clock that nobody sets has measured
	OOMKills           int       // processes the kernel killed in the run's cgroup for want of host memory
	CPUSeconds         float64   // 0 when nobody counted
	PeakMemoryMB       *int64    // of the whole tree where a cgroup counts it, otherwise of its largest process

	LogBytes   int64  // what the run wrote
	LogDropped int64  // of that, not kept
	Tail       []byte // the last 64 KiB it wrote, both streams

	Steps   []StepState // of a pipeline, as far as it is known
	Refused string      // why a step that was not the first could not be started

	Output    json.RawMessage // what the job left in its result file, when that is JSON
	Warnings  []string
	Survivors []int // processes that do not die: their devices must not be given away
}

const tailSize = 64 << 10

// conclude reads how the run ended. Without a word from the shim the tree is killed and the cause is shim_lost.
func (h *Handle) conclude() Exit {
	var seen shim.Exit
	err := readJSON(filepath.Join(h.dir, shim.ExitFile), &seen)
	var exit Exit
	if err == nil {
		exit = exitOf(seen)
	} else {
		exit = h.unseen(err)
	}
	exit.addInside(h.dir)
	if exit.Tail, err = spool.Tail(h.dir, tailSize); err != nil {
		exit.Warnings = append(exit.Warnings, err.Error())
	}
	if exit.Output, err = h.output(); err != nil {
		exit.Warnings = append(exit.Warnings, err.Error())
	}
	return exit
}

func exitOf(seen shim.Exit) Exit {
	e := Exit{
		Code: seen.Code, Cause: Cause(seen.Cause), Why: seen.Why,
		StartedAt: seen.StartedAt, EndedAt: seen.StartedAt.Add(seen.Elapsed),
		OOMKills: seen.OOMKills, CPUSeconds: seen.CPUSeconds, PeakMemoryMB: seen.PeakMemoryMB,
		LogBytes: seen.LogBytes, LogDropped: seen.LogDropped, Warnings: seen.Warnings, Survivors: seen.Survivors,
		Steps: stepStates(seen.Steps), Refused: seen.Refused,
	}
	if seen.Signal != 0 {
		e.Signal = signalName(syscall.Signal(seen.Signal))
	}
	return e
}

// unseen ends a run whose shim is gone without a word.
func (h *Handle) unseen(cause error) Exit {
	exit := Exit{
		Code: -1, Cause: ShimLost, StartedAt: h.state.StartedAt, EndedAt: time.Now(),
		Why: "the run's shim was killed; its processes were ended, how the command would have ended nobody knows",
	}
	if !errors.Is(cause, os.ErrNotExist) {
		exit.Warnings = append(exit.Warnings, "exit.json: "+cause.Error())
	}
	if words := shimWords(h.dir); words != "" {
		exit.Warnings = append(exit.Warnings, "the shim said"+words)
	}
	if exit.Steps, cause = readSteps(h.dir); cause != nil {
		exit.Warnings = append(exit.Warnings, cause.Error())
	}
	state := h.state
	_ = readJSON(filepath.Join(h.dir, shim.StateFile), &state) // of a pipeline the job's process is another one with each step
	h.mu.Lock()
	if h.forced && h.ask != nil {
		exit.Cause, exit.Why = h.ask.cause, h.ask.why
		exit.Warnings = append(exit.Warnings, "the run's shim did not follow: it was killed and its processes with it")
	}
	h.mu.Unlock()
	err := sweep(tracesOf(h.kept, state))
	if late := after(h.kept.After); late != nil {
		exit.Warnings = append(exit.Warnings, late.Error())
	}
	if err != nil {
		exit.Warnings = append(exit.Warnings, err.Error())
		var s *survivorsError
		if errors.As(err, &s) {
			exit.Survivors = s.pids()
		}
	}
	return exit
}

// output reads the job's result file, or the one its shim left without the values of secrets. What is not JSON, or too
// much, is a warning: the job's own exit decides.
func (h *Handle) output() (json.RawMessage, error) {
	path := shim.ResultFile(h.dir)
	if h.kept.Secrets {
		path = shim.CleanResultFile(h.dir) // absent where the shim was killed: better nothing than a secret
	}
	return shim.ReadResult(path)
}

// ResultFile is the path of BERTH_RESULT_FILE in a run's folder.
func ResultFile(stateDir string) string { return shim.ResultFile(stateDir) }

// ScriptFile is the path of the job's script in a run's folder.
func ScriptFile(stateDir string) string { return shim.ScriptFile(stateDir) }

// ProgressFile is the path of BERTH_PROGRESS in a run's folder.
func ProgressFile(stateDir string) string { return shim.ProgressFile(stateDir) }

// StopReasonFile is the path of BERTH_STOP_REASON_FILE in a run's folder.
func StopReasonFile(stateDir string) string { return shim.StopReasonFile(stateDir) }

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig)) // a real-time signal
}
