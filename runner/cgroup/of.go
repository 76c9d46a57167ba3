package cgroup

import (
	"os"
	"strconv"
	"strings"
)

// Of finds the groups that a process is in whose path holds a word: those that a container engine made for it. group is
// where its processes are listed; legacy are the v1 groups that count them. Nothing is found where the engine's groups
// are not visible from here.
func Of(pid int, word string) (group string, legacy Legacy) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil || word == "" {
		return "", nil
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || !strings.Contains(f[2], word) {
			continue
		}
		dir, ok := folderOf(f[1], f[2])
		switch {
		case !ok:
		case f[1] == "": // v2
			group = dir
		case f[1] == "memory" || strings.Contains(f[1], "cpuacct"):
			legacy = append(legacy, dir)
		}
	}
	if group == "" && len(legacy) > 0 {
		group = legacy[0]
	}
	return group, legacy
}

// folderOf is where a group is mounted.
func folderOf(controllers, path string) (string, bool) {
	kind, controller := "cgroup2 ", ""
	if controllers != "" {
		kind = "cgroup "
		controller, _, _ = strings.Cut(controllers, ",")
	}
	mount, err := mountPoint(kind, controller)
	if err != nil {
		return "", false
	}
	_, err = os.Stat(mount + path + "/cgroup.procs")
	return mount + path, err == nil
}

// CPUSeconds is the processor time of all processes that ever were in the groups.
func (g Legacy) CPUSeconds() (float64, bool) {
	for _, dir := range g {
		b, err := os.ReadFile(dir + "/cpuacct.usage")
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		return float64(n) / 1e9, err == nil
	}
	return 0, false
}
