package worker

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
)

// CauseGPUFault is the worker's own cause for ending a run: a device under it failed.
const CauseGPUFault runner.Cause = "gpu_fault"

// Ending is everything known about how an attempt ended.
type Ending struct {
	Cause    runner.Cause // why Berth itself ended the run; empty when it ended by itself
	Exit     job.Exit
	StartErr error // the command could not be started at all
	GPUs     int   // devices the run held

	// OOMKills is how often the kernel killed a process of the run's own cgroup for memory.
	OOMKills int
	// GPUFault is the fatal fault seen on a device of the run while it ran ("XID 79 on GPU 0: ..."), empty if none.
	GPUFault string
	// GPUAppFault is an application fault (XID 13, 31, 43, 45, 68, 109) on a device of the run, as evidence only.
	GPUAppFault string
	// PeakMemoryPercent is the fullest any device of the run was seen.
	PeakMemoryPercent *float64
	// Tail is the end of stdout and stderr, 64 KiB at most.
	Tail []byte
	// CancelledBy says who asked, for the reason.
	CancelledBy string
	// Why is what ended the run, in the shim's words.
	Why string
	// Rules are the job's own: they win over what we read.
	Rules []job.FailReason
}

// Verdict is the outcome of an attempt with the reason in words and the line, counter or fault it rests on.
type Verdict struct {
	Outcome  job.Outcome
	Reason   string
	Evidence string
}

// Judge decides what an ending means. What Berth did itself comes first, then success, then the job's own rules, then
// evidence from strongest to weakest: a hardware fault, the kernel's counter, what the frameworks print, the bare signal or code. A code of
// 137 alone proves nothing: people, container engines and evictions send SIGKILL too.
func Judge(e Ending) Verdict {
	if v, ours := ownAction(e); ours {
		return v
	}
	if e.StartErr != nil {
		return Verdict{job.OutcomeFailed, "the command could not be started: " + e.StartErr.Error(), ""}
	}
	if e.Exit.Code == 0 && e.Exit.Signal == "" {
		return Verdict{Outcome: job.OutcomeSucceeded}
	}
	if v, ok := fromRules(e); ok {
		return v
	}
	if e.GPUFault != "" {
		return Verdict{job.OutcomeGPUFault, "a GPU of the run failed", e.GPUFault}
	}
	if e.OOMKills > 0 {
		return Verdict{job.OutcomeOOMHost, "the kernel killed a process of the run: it used more host memory than it asked for",
			fmt.Sprintf("oom_kill %d in the run's cgroup", e.OOMKills)}
	}
	if v, ok := fromTail(e); ok {
		return v
	}
	return fromExit(e)
}

func ownAction(e Ending) (Verdict, bool) {
	switch e.Cause {
	case runner.Timeout:
		return Verdict{job.OutcomeTimeout, "ran into its time limit", e.Why}, true
	case runner.Cancelled:
		reason := "cancelled"
		if e.CancelledBy != "" {
			reason += " by " + e.CancelledBy
		}
		return Verdict{job.OutcomeCancelled, reason, ""}, true
	case runner.Drained:
		return Verdict{job.OutcomeInterrupted, "drained: the machine was asked to stop its runs", ""}, true
	case runner.Preempted:
		return Verdict{job.OutcomeInterrupted, "preempted: a job of higher priority needs the place", ""}, true
	case runner.SessionLost:
		return Verdict{job.OutcomeInterrupted, "claim_lost: the worker had no proof for too long that the job was still its own", ""}, true
	case runner.ShimLost:
		return Verdict{job.OutcomeInterrupted, "shim_lost: the run's supervisor was killed, its end is unknown; what was left of it was stopped", ""}, true
	case runner.EngineLost:
		return Verdict{job.OutcomeInterrupted, "engine_lost: the container engine went away under the run, its end is unknown", ""}, true
	case CauseReleased:
		return Verdict{job.OutcomeSucceeded, e.CancelledBy, ""}, true
	case CauseGPUFault:
		return Verdict{job.OutcomeGPUFault, "a GPU of the run failed; the run was stopped", e.GPUFault}, true
	}
	return Verdict{}, false
}

// fromTail looks for the first sign, in the order of signs; the evidence is the last line that shows it, since the
// last is what ended the run.
func fromTail(e Ending) (Verdict, bool) {
	lines := tailLines(e.Tail)
	for _, s := range signs {
		if s.gpuOnly && e.GPUs == 0 {
			continue
		}
		for i := len(lines) - 1; i >= 0; i-- {
			if s.pattern.Match(lines[i]) {
				return Verdict{s.outcome, s.reason + strengthen(s, e), evidenceLine(lines[i])}, true
			}
		}
	}
	return Verdict{}, false
}

// strengthen adds what was measured where it bears the text out. A low peak says nothing: an allocation that failed was
// never seen, and one that stood for less than a sample may not have been.
func strengthen(s sign, e Ending) string {
	if s.outcome == job.OutcomeOOMGPU && e.PeakMemoryPercent != nil && *e.PeakMemoryPercent >= 90 {
		return fmt.Sprintf(" (seen up to %.0f %% full)", *e.PeakMemoryPercent)
	}
	return ""
}

func tailLines(tail []byte) [][]byte {
	return bytes.FieldsFunc(tail, func(r rune) bool { return r == '\n' || r == '\r' })
}

// lastLine is the last line that says anything.
func lastLine(tail []byte) string {
	lines := tailLines(tail)
	for i := len(lines) - 1; i >= 0; i-- {
		if line := evidenceLine(lines[i]); line != "" {
			return line
		}
	}
	return ""
}

const maxEvidence = 400 // bytes; the whole line is in the log

func evidenceLine(line []byte) string {
	s := strings.ToValidUTF8(strings.TrimSpace(string(line)), "\uFFFD")
	if len(s) > maxEvidence {
		s = strings.ToValidUTF8(s[:maxEvidence], "") + "…"
	}
	return s
}

// fromExit names the bare signal or code; the evidence is the program's last word, where the card had none.
func fromExit(e Ending) Verdict {
	v := Verdict{Outcome: job.OutcomeFailed, Evidence: e.GPUAppFault}
	if v.Evidence == "" {
		v.Evidence = lastLine(e.Tail)
	}
	switch {
	case e.Exit.Signal == "SIGKILL":
		v.Reason = "killed from outside (SIGKILL); Berth did not, and the run's memory counter shows no out-of-memory"
	case e.Exit.Signal == "SIGSEGV", e.Exit.Signal == "SIGBUS", e.Exit.Signal == "SIGILL", e.Exit.Signal == "SIGFPE", e.Exit.Signal == "SIGABRT":
		v.Reason = "the program crashed (" + e.Exit.Signal + ")"
	case e.Exit.Signal != "":
		v.Reason = "ended by " + e.Exit.Signal
	case e.Exit.Code == 126:
		v.Reason = "exit 126: the command is not executable"
	case e.Exit.Code == 127:
		v.Reason = "exit 127: the command was not found"
	case e.Exit.Code > 128 && e.Exit.Code < 128+65:
		v.Reason = fmt.Sprintf("exit %d: a process of the run ended by signal %d", e.Exit.Code, e.Exit.Code-128)
	default:
		v.Reason = fmt.Sprintf("exit %d", e.Exit.Code)
	}
	return v
}
