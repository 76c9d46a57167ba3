package shim

import (
	"os"
	"syscall"

	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/proc"
)

// tree is everything the run has started: what is in its cgroup, and what descends from the shim, which is the parent
// of every orphan below it.
type tree struct {
	group *cgroup.Group // nil: the machine offers none
}

// living lists the processes of the run that have not ended.
func (t tree) living() []proc.Stat {
	all, err := proc.All()
	if err != nil {
		return nil
	}
	found := proc.Descendants(all, os.Getpid())
	if t.group == nil {
		return found
	}
	known := make(map[int]bool, len(found))
	for _, s := range found {
		known[s.PID] = true
	}
	for _, pid := range t.group.PIDs() {
		if s, err := proc.Read(pid); err == nil && !known[pid] && !s.Zombie() {
			found = append(found, s)
		}
	}
	return found
}

// signal sends a signal to every process of the run; with catchers only to those that have a handler for it. It
// returns how many got it.
func (t tree) signal(sig syscall.Signal, catchers bool) int {
	sent := 0
	for _, s := range t.living() {
		if catchers && !proc.Catches(s.PID, int(sig)) {
			continue
		}
		if proc.Signal(s.PID, s.Start, sig) == nil {
			sent++
		}
	}
	return sent
}

// kill ends every process of the run. The cgroup does it at once, forks included. Without one all are stopped first,
// until no new one appears, so that a tree that forks faster than it can be walked cannot outrun the kill.
func (t tree) kill() {
	if t.group != nil {
		_ = t.group.Kill() // what it leaves, the walk finds
	}
	stopped := map[proc.Stat]bool{}
	for range 50 {
		fresh := 0
		for _, s := range t.living() {
			id := proc.Stat{PID: s.PID, Start: s.Start}
			if !stopped[id] && proc.Signal(s.PID, s.Start, syscall.SIGSTOP) == nil {
				stopped[id] = true
				fresh++
			}
		}
		if fresh == 0 {
			break
		}
	}
	for s := range stopped {
		_ = proc.Signal(s.PID, s.Start, syscall.SIGKILL) // gone already is as good
	}
}

// empty reports whether nothing is left. It is asked only after the last child was reaped.
func (t tree) empty() bool { return t.group == nil || !t.group.Populated() }
