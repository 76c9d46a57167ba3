package runner

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/runner/shim"
)

// traces are what a run's processes can be found by when their shim is gone: their cgroup, the session the command
// began, the mark in their environment. A process that left all three on purpose, on a machine without cgroups, is
// beyond finding.
type traces struct {
	group  *cgroup.Group
	legacy cgroup.Legacy
	mark   string
	job    shim.Process
}

func tracesOf(k kept, state shim.State) traces {
	t := traces{mark: k.Mark, job: state.Job, legacy: k.Legacy}
	if k.Cgroup != "" {
		t.group = &cgroup.Group{Dir: k.Cgroup}
	}
	return t
}

// living lists the processes that carry a trace.
func (t traces) living() []proc.Stat {
	all, err := proc.All()
	if err != nil {
		return nil
	}
	inGroup := map[int]bool{}
	if t.group != nil {
		for _, pid := range t.group.PIDs() {
			inGroup[pid] = true
		}
	}
	session := t.ownSession(all)
	var found []proc.Stat
	for _, s := range all {
		if s.Zombie() || s.PID == os.Getpid() {
			continue
		}
		if inGroup[s.PID] || session && s.SID == t.job.PID || proc.Marked(s.PID, t.mark) {
			found = append(found, s)
		}
	}
	return found
}

// ownSession reports whether the number of the command's session is still its own. The kernel does not give a pid away
// while a session is named after it; once it did, the new owner has another start time.
func (t traces) ownSession(all []proc.Stat) bool {
	if t.job.PID == 0 || t.job.Start == 0 {
		return false
	}
	for _, s := range all {
		if s.PID == t.job.PID {
			return s.Start == t.job.Start
		}
	}
	return true
}

// How long a sweep goes on, and how often it looks again: there is nothing to wait on when the parent of the killed
// is another process.
const (
	sweepLimit = 30 * time.Second
	sweepAgain = 20 * time.Millisecond
)

// sweep kills everything that carries a trace, until nothing does, and removes the cgroup.
func sweep(t traces) error {
	for began := time.Now(); ; time.Sleep(sweepAgain) {
		if t.group != nil {
			_ = t.group.Kill() // what it leaves, the look finds
		}
		left := t.living()
		if len(left) == 0 && (t.group == nil || !t.group.Populated()) {
			break
		}
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // all stand still before one dies
			for _, s := range left {
				_ = proc.Signal(s.PID, s.Start, sig) // gone already is as good
			}
		}
		if time.Since(began) > sweepLimit {
			return &survivorsError{left}
		}
	}
	if t.group == nil {
		return t.legacy.Remove()
	}
	return errors.Join(t.legacy.Remove(), t.group.Remove())
}

// survivorsError names processes that SIGKILL did not end.
type survivorsError struct{ left []proc.Stat }

func (e *survivorsError) Error() string {
	return fmt.Sprintf("%d processes do not die (they sit in the kernel): %v", len(e.left), e.pids())
}

func (e *survivorsError) pids() []int {
	var pids []int
	for _, s := range e.left {
		pids = append(pids, s.PID)
	}
	return pids
}

// census is one look at all processes of the machine, shared by all runs that ask at about the same time.
type census struct {
	mu  sync.Mutex
	at  time.Time
	all []proc.Stat
}

const censusAge = 250 * time.Millisecond

func (c *census) look() []proc.Stat {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < censusAge {
		return c.all
	}
	all, err := proc.All()
	if err != nil {
		return c.all
	}
	c.all, c.at = all, time.Now()
	return all
}

// members lists the living processes of a run whose shim lives.
func (p *Process) members(t traces, shimPID int) []int {
	if t.group != nil {
		return t.group.PIDs()
	}
	var pids []int
	for _, s := range proc.Descendants(p.census.look(), shimPID) {
		pids = append(pids, s.PID)
	}
	return pids
}
