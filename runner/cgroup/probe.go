package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Level is how much of a fence the machine gives a run.
type Level string

// The levels, best first.
const (
	Full   Level = "cgroup-v2"
	Hybrid Level = "cgroup-hybrid"
	Fence  Level = "cgroup-v2-fence"
	None   Level = "process-group"
)

// Tree is where the groups of this machine's runs are made. The zero Tree makes none.
type Tree struct {
	Level       Level
	Text        string   // for people: what holds a run, and what is missing
	Root        string   // folder of the groups; "" when there are none
	Controllers []string // that limit and count a run

	legacy map[string]string // controllers that sit in v1: the folder of the groups there
}

// wanted controllers; a run's limits use those that the machine grants.
var wanted = []string{"memory", "pids", "cpu"}

// Off is the tree of a worker that was told to use no groups.
func Off() Tree {
	return Tree{Level: None, Text: "process group, subreaper and environment mark (cgroups switched off)"}
}

// Probe finds out what the machine offers by doing it: make a group, run try in it, kill it, remove it. try starts a
// short process inside the group whose folder it is given. Anything that fails lowers the level and is said in Text.
func Probe(try func(dir string) error) Tree {
	root, err := makeRoot()
	if err != nil {
		return Tree{Level: None, Text: "process group, subreaper and environment mark: " + err.Error()}
	}
	t := Tree{Level: Fence, Root: root, Controllers: enable(root)}
	if err := t.prove(try); err != nil {
		return Tree{Level: None, Text: fmt.Sprintf("process group, subreaper and environment mark: cgroups at %s do not work: %v", root, err)}
	}
	full := slices.Contains(t.Controllers, "memory") && slices.Contains(t.Controllers, "pids")
	t.legacy = legacyRoots(t.Controllers)
	t.Controllers = append(t.Controllers, slices.Sorted(maps.Keys(t.legacy))...)
	switch {
	case full:
		t.Level, t.Text = Full, "cgroup v2 at "+root+" with "+strings.Join(t.Controllers, ", ")
		return t
	case t.legacy["memory"] != "":
		t.Level = Hybrid
		t.Text = "cgroup v2 at " + root + " holds and kills a run as a whole; v1 limits " + strings.Join(t.Controllers, ", ") + " of runs that ask for it"
		return t
	}
	t.Text = "cgroup v2 at " + root + " holds and kills a run as a whole; without the memory controller (hybrid hierarchy, or not delegated: with systemd Delegate=yes and DelegateSubgroup=" + Leaf + ") host memory is not limited"
	return t
}

func (t Tree) prove(try func(dir string) error) error {
	dir, err := os.MkdirTemp(t.Root, "probe-")
	if err != nil {
		return err
	}
	g := Group{Dir: dir}
	err = try(dir)
	return errors.Join(err, g.Kill(), g.Remove())
}

// Leaf is the name of the group in which the worker and its shims are themselves, where a service manager delegates a
// group to them (systemd: DelegateSubgroup=worker). The groups of runs are made beside it: a group that hands
// controllers down must not hold processes.
const Leaf = "worker"

// makeRoot makes the folder for groups below this process's own place in the v2 hierarchy, or beside it: that is what a
// service manager delegates.
func makeRoot() (string, error) {
	mount, err := mountPoint("cgroup2 ", "")
	if err != nil {
		return "", err
	}
	own, err := ownPath("0::")
	if err != nil {
		return "", err
	}
	root := mount + strings.TrimSuffix(strings.TrimSuffix(own, "/"+Leaf), "/") + "/berth"
	if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("no cgroup of our own (with systemd: Delegate=yes and DelegateSubgroup=%s): %w", Leaf, err)
	}
	if _, err := os.Stat(root + "/cgroup.kill"); err != nil {
		return "", errors.New("the kernel has no cgroup.kill (Linux 5.14 or newer has)")
	}
	return root, nil
}

// mountPoint finds a hierarchy: the v2 one is /sys/fs/cgroup, or /sys/fs/cgroup/unified on hybrid machines; those of v1
// are told by a controller in their options.
func mountPoint(kind, controller string) (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		before, after, found := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !found || len(f) < 5 || !strings.HasPrefix(after, kind) {
			continue
		}
		options := strings.Split(after[strings.LastIndexByte(strings.TrimSpace(after), ' ')+1:], ",")
		if controller == "" || slices.ContainsFunc(options, func(o string) bool { return strings.TrimSpace(o) == controller }) {
			return f[4], nil
		}
	}
	return "", errors.New("no " + strings.TrimSpace(kind+controller) + " hierarchy is mounted")
}

// ownPath is where this process is in a hierarchy; key is how its line in /proc/self/cgroup names that.
func ownPath(key string) (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if before, path, found := strings.Cut(line, key); found && !strings.Contains(before, ":") {
			return strings.TrimSpace(path), nil
		}
	}
	return "", errors.New("this process is in no cgroup " + key)
}

// enable hands the wanted controllers down to root's children and returns those it got.
func enable(root string) []string {
	parent := strings.TrimSuffix(root, "/berth")
	if crowded(parent) {
		return nil
	}
	var got []string
	for _, c := range wanted {
		if !has(parent, "cgroup.controllers", c) {
			continue
		}
		if !has(parent, "cgroup.subtree_control", c) && grant(parent, c) != nil {
			continue
		}
		if has(root, "cgroup.subtree_control", c) || grant(root, c) == nil {
			got = append(got, c)
		}
	}
	return got
}

// crowded reports whether a group holds processes itself. Such a group cannot hand down the memory controller; those it
// can hand down would make all groups below it unusable. The root of the hierarchy, which has no type, may do both.
func crowded(dir string) bool {
	if _, err := os.Stat(dir + "/cgroup.type"); err != nil {
		return false
	}
	procs, err := os.ReadFile(dir + "/cgroup.procs")
	return err == nil && len(bytes.TrimSpace(procs)) > 0
}

func grant(dir, controller string) error {
	return os.WriteFile(dir+"/cgroup.subtree_control", []byte("+"+controller), 0)
}

func has(dir, file, word string) bool {
	b, err := os.ReadFile(dir + "/" + file)
	return err == nil && slices.ContainsFunc(bytes.Fields(b), func(f []byte) bool { return string(f) == word })
}
