package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// Limits of one run. Zero means none.
type Limits struct {
	MemoryMB int64 `json:"memory_mb,omitempty"`
	CPUs     int   `json:"cpus,omitempty"` // a weight against other runs, never a ceiling
	PIDs     int   `json:"pids,omitempty"`
}

// Group is the control group of one run.
type Group struct {
	Dir string
}

// Create makes an empty group.
func (t Tree) Create(name string) (Group, error) {
	g := Group{Dir: t.Root + "/" + name}
	if err := os.Mkdir(g.Dir, 0o755); err != nil {
		return Group{}, fmt.Errorf("make a cgroup: %w", err)
	}
	return g, nil
}

// Limit limits a group, as far as the tree has the controllers.
func (t Tree) Limit(g Group, l Limits) error {
	for file, value := range t.settings(l) {
		if err := g.set(file, value); err != nil {
			return fmt.Errorf("limit the cgroup: %w", err)
		}
	}
	return nil
}

func (t Tree) settings(l Limits) map[string]string {
	s := map[string]string{}
	granted := func(c string) bool { return slices.Contains(t.Controllers, c) && t.legacy[c] == "" }
	if granted("memory") {
		s["memory.oom.group"] = "1" // half a run helps nobody
		if l.MemoryMB > 0 {
			s["memory.max"] = strconv.FormatInt(l.MemoryMB<<20, 10)
			s["memory.swap.max"] = "0"
		}
	}
	if granted("pids") && l.PIDs > 0 {
		s["pids.max"] = strconv.Itoa(l.PIDs)
	}
	if granted("cpu") && l.CPUs > 0 {
		s["cpu.weight"] = strconv.Itoa(min(10000, 100*l.CPUs))
	}
	return s
}

func (g Group) set(file, value string) error {
	err := os.WriteFile(g.Dir+"/"+file, []byte(value), 0)
	if file == "memory.swap.max" && errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without swap accounting
	}
	return err
}

// Kill ends every process in the group, also those that are being forked. Whether they are gone says [Group.Populated].
func (g Group) Kill() error {
	err := g.set("cgroup.kill", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the group itself is gone
	}
	return err
}

// Populated reports whether any process lives in the group or below it.
func (g Group) Populated() bool {
	n, ok := g.counter("cgroup.events", "populated")
	return ok && n > 0
}

// PIDs lists the processes in the group and below it.
func (g Group) PIDs() []int {
	var pids []int
	for _, dir := range g.dirs() {
		b, _ := os.ReadFile(dir + "/cgroup.procs") // a group that vanishes has none
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// dirs lists the group's folder and all below it, parents first.
func (g Group) dirs() []string {
	all := []string{g.Dir}
	for i := 0; i < len(all); i++ {
		entries, _ := os.ReadDir(all[i]) // a group that vanishes has no groups below it
		for _, e := range entries {
			if e.IsDir() {
				all = append(all, all[i]+"/"+e.Name())
			}
		}
	}
	return all
}

// OOMKills counts the group's processes that the kernel killed for want of memory. Read it before Remove.
func (g Group) OOMKills() int {
	n, _ := g.counter("memory.events", "oom_kill")
	return int(n)
}

// RefusedForks counts how often a process of the group could not be started because of the limit on their number.
func (g Group) RefusedForks() int {
	n, _ := g.counter("pids.events", "max")
	return int(n)
}

// CPUSeconds is the processor time of all processes that ever were in the group.
func (g Group) CPUSeconds() (float64, bool) {
	n, ok := g.counter("cpu.stat", "usage_usec")
	return float64(n) / 1e6, ok
}

// PeakMemoryMB is the most host memory the group held at once.
func (g Group) PeakMemoryMB() (int64, bool) {
	return readMB(g.Dir + "/memory.peak")
}

// readMB reads a file that holds a number of bytes, and rounds up.
func readMB(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return (n + 1<<20 - 1) >> 20, err == nil
}

// counter reads the line "key n" of one of the group's files.
func (g Group) counter(file, key string) (int64, bool) {
	b, err := os.ReadFile(g.Dir + "/" + file)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 2 && string(f[0]) == key {
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Remove takes the empty group away, with the groups the run made below it. A group that is gone is no error.
func (g Group) Remove() error {
	dirs := g.dirs()
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := syscall.Rmdir(dirs[i]); err != nil && err != syscall.ENOENT {
			return fmt.Errorf("remove the cgroup %s: %w", dirs[i], err)
		}
	}
	return nil
}
