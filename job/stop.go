package job

import (
	"slices"
	"strings"
	"time"
)

const (
	// DefaultCheckpointSignal is the signal of a checkpoint that names none.
	DefaultCheckpointSignal = "SIGUSR1"
	// DefaultCheckpointBefore is how long ahead of the end it comes when the checkpoint does not say.
	DefaultCheckpointBefore = Duration(time.Minute)

	// maxGrace bounds how long a stopped run may keep its GPUs.
	maxGrace = Duration(time.Hour)
)

// signals are those a program can be asked something with: SIGKILL and SIGSTOP cannot be heard.
var signals = []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGCONT", "SIGWINCH"}

// SignalName is the whole name of a signal a run can be sent: "usr1" is SIGUSR1. ok is false for any other.
func SignalName(text string) (name string, ok bool) {
	name = strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return name, slices.Contains(signals, name)
}

// Effective is the checkpoint with its defaults.
func (c Checkpoint) Effective() Checkpoint {
	if c.Signal == "" {
		c.Signal = DefaultCheckpointSignal
	}
	if c.Before == 0 {
		c.Before = DefaultCheckpointBefore
	}
	return c
}

func (s Spec) checkStop(ps *problems) {
	if c := s.Checkpoint; c != nil {
		checkSignal(ps, "checkpoint.signal", c.Signal)
		if c.Before < 0 {
			ps.add("checkpoint.before", "is negative")
		}
		if before := c.Effective().Before; s.TimeLimit > 0 && before >= s.TimeLimit {
			ps.add("checkpoint.before", "%s is no less than the time limit of %s: the signal would come at the start", before, s.TimeLimit)
		}
	}
	if p := s.Stop; p != nil {
		checkSignal(ps, "stop.signal", p.Signal)
		if p.Grace < 0 || p.Grace > maxGrace {
			ps.add("stop.grace", "%s: want 0 to %s", p.Grace, maxGrace)
		}
	}
}

func checkSignal(ps *problems, path, text string) {
	if text == "" {
		return
	}
	if name, ok := SignalName(text); !ok {
		ps.add(path, "%s is no signal a program can hear: want one of %s%s", quoted(text), strings.Join(signals, ", "), didYouMean(name, signals))
	}
}
