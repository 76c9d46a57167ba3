package cgroup

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Legacy are groups of one run in v1 hierarchies: on hybrid machines the memory, pids and cpu controllers sit there. A
// process gets into them only by being moved, which the kernel takes milliseconds for; so they are made for runs that
// ask for a limit, and for no others. They limit and count; the v2 group still holds and kills.
type Legacy []string

// legacyRoots finds the writable v1 hierarchies of the controllers that v2 does not have.
func legacyRoots(granted []string) map[string]string {
	roots := map[string]string{}
	for _, controller := range wanted {
		if slices.Contains(granted, controller) {
			continue
		}
		mount, err := mountPoint("cgroup ", controller)
		if err != nil {
			continue
		}
		own, err := ownLegacyPath(controller)
		if err != nil {
			continue
		}
		root := mount + strings.TrimSuffix(own, "/") + "/berth"
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			continue
		}
		if controller == "cpu" && setShares(root, runtime.NumCPU()) != nil {
			continue
		}
		roots[controller] = root
	}
	return roots
}

// ownLegacyPath is where this process is in the v1 hierarchy of a controller, which may share it with others.
func ownLegacyPath(controller string) (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return legacyPath(string(b), controller)
}

func legacyPath(groups, controller string) (string, error) {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			return f[2], nil
		}
	}
	return "", errors.New("this process is in no cgroup of " + controller)
}

// shares is the weight of one processor in v1. The groups of all runs that asked for processors weigh together as much as
// the machine has: beside them are the processes of runs that asked for none, each with the weight of one.
const shares = 1024

func setShares(dir string, cpus int) error {
	return os.WriteFile(dir+"/cpu.shares", []byte(strconv.Itoa(shares*cpus)), 0)
}

// CreateLegacy makes the groups that the limits ask for.
func (t Tree) CreateLegacy(name string, l Limits) (Legacy, error) {
	var made Legacy
	limit := func(controller string, files map[string]int64) error {
		root, ok := t.legacy[controller]
		if !ok {
			return nil
		}
		dir := root + "/" + name
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		made = append(made, dir)
		for file, value := range files {
			if err := os.WriteFile(dir+"/"+file, []byte(strconv.FormatInt(value, 10)), 0); err != nil {
				return fmt.Errorf("limit the cgroup: %w", err)
			}
		}
		return nil
	}
	var err error
	if l.MemoryMB > 0 {
		err = limit("memory", map[string]int64{"memory.limit_in_bytes": l.MemoryMB << 20})
	}
	if l.CPUs > 0 {
		err = errors.Join(err, limit("cpu", map[string]int64{"cpu.shares": int64(shares * l.CPUs)}))
	}
	if l.PIDs > 0 {
		err = errors.Join(err, limit("pids", map[string]int64{"pids.max": int64(l.PIDs)}))
	}
	if err != nil {
		return nil, errors.Join(err, made.Remove())
	}
	return made, nil
}

// Enter moves the calling process into the groups: what it forks now is born there.
func (g Legacy) Enter() error { return g.move("") }

// Leave moves it back to where it came from.
func (g Legacy) Leave() error { return g.move("/../..") }

func (g Legacy) move(to string) error {
	for _, dir := range g {
		if err := os.WriteFile(dir+to+"/cgroup.procs", []byte("0"), 0); err != nil {
			return fmt.Errorf("move between cgroups: %w", err)
		}
	}
	return nil
}

// OOMKills counts the processes that the kernel killed for want of memory. Read it before Remove.
func (g Legacy) OOMKills() int {
	for _, dir := range g {
		if n, ok := (Group{dir}).counter("memory.oom_control", "oom_kill"); ok {
			return int(n)
		}
	}
	return 0
}

// RefusedForks counts how often a process could not be started because of the limit on their number.
func (g Legacy) RefusedForks() int {
	n := 0
	for _, dir := range g {
		n += Group{dir}.RefusedForks()
	}
	return n
}

// PeakMemoryMB is the most host memory the groups held at once.
func (g Legacy) PeakMemoryMB() (int64, bool) {
	for _, dir := range g {
		if mb, ok := readMB(dir + "/memory.max_usage_in_bytes"); ok {
			return mb, true
		}
	}
	return 0, false
}

// Remove takes the empty groups away. One that is gone is no error.
func (g Legacy) Remove() error {
	for _, dir := range g {
		if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove the cgroup %s: %w", dir, err)
		}
	}
	return nil
}
