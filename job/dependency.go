package job

import (
	"fmt"
	"slices"
	"strings"
)

// Dependency is one condition a job waits for: that any one of the jobs it names has succeeded, or (AnyEnd) has ended
// however it did. It is written "1842", "after-ok:1842", "after:1842", and with alternatives "after-ok:1842|1843".
type Dependency struct {
	Jobs   []string // numbers, tasks (1842.17), ranges (1842-1850, 1842.1-10), names or @last; numbers and tasks once queued
	AnyEnd bool
}

const (
	afterOK = "after-ok"
	after   = "after"
)

// What happens to a job one of whose conditions can no longer come true.
const (
	ParentFailsCancel = "cancel" // the default
	ParentFailsWait   = "wait"   // a retry of the parent may still succeed
)

// maxParents bounds the jobs that one job names.
const maxParents = 1000

// UnmarshalText reads the form String writes.
func (d *Dependency) UnmarshalText(text []byte) error {
	kind, list, found := strings.Cut(string(text), ":")
	if !found {
		kind, list = afterOK, kind
	}
	switch strings.ReplaceAll(kind, "_", "-") {
	case afterOK:
		d.AnyEnd = false
	case after:
		d.AnyEnd = true
	default:
		return fmt.Errorf("%s: want after-ok:JOB (it succeeded) or after:JOB (it ended)", quoted(string(text)))
	}
	d.Jobs = strings.Split(list, "|")
	for i, name := range d.Jobs {
		d.Jobs[i] = strings.TrimSpace(name)
		if d.Jobs[i] == "" {
			return fmt.Errorf("%s names no job", quoted(string(text)))
		}
	}
	return nil
}

// MarshalText writes String.
func (d Dependency) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Dependency) String() string {
	kind := afterOK
	if d.AnyEnd {
		kind = after
	}
	return kind + ":" + strings.Join(d.Jobs, "|")
}

// Text says the condition as part of a sentence: "1842 has succeeded".
func (d Dependency) Text() string {
	verb := " has succeeded"
	if d.AnyEnd {
		verb = " has ended"
	}
	return strings.Join(d.Jobs, " or ") + verb
}

func (s Spec) checkDependencies(ps *problems) {
	n := 0
	for i, d := range s.DependsOn {
		n += len(d.Jobs)
		if len(d.Jobs) == 0 {
			ps.add(indexed("depends_on", i), "names no job")
		}
		for _, name := range d.Jobs {
			checkText(ps, indexed("depends_on", i), name, MaxNameLength)
		}
	}
	if n > maxParents {
		ps.add("depends_on", "names %d jobs, at most %d are allowed: let them be one group, and wait for that", n, maxParents)
	}
	checkChoice(ps, "if_parent_fails", s.IfParentFails, []string{ParentFailsCancel, ParentFailsWait})
	if s.IfParentFails != "" && len(s.DependsOn) == 0 {
		ps.add("if_parent_fails", "has a meaning only beside depends_on")
	}
	if s.IsLease() && len(s.DependsOn) > 0 {
		ps.add("depends_on", "a lease waits for nobody's end")
	}
}

// Met says how the conditions stand, by the states of the jobs they name: all are met, or one never will be (failed says
// which and why), or neither. "" is a job that is not known any more.
func Met(conditions []Dependency, state func(name string) State) (met bool, failed string) {
	met = true
	for _, d := range conditions {
		ok := slices.ContainsFunc(d.Jobs, func(name string) bool {
			s := state(name)
			return s == Succeeded || d.AnyEnd && (s.Final() || s == "")
		})
		if ok {
			continue
		}
		met = false
		if text, never := d.never(state); never {
			return false, text
		}
	}
	return met, ""
}

// never says why none of the named jobs can meet the condition any more.
func (d Dependency) never(state func(name string) State) (string, bool) {
	var parts []string
	for _, name := range d.Jobs {
		switch s := state(name); {
		case s == "":
			parts = append(parts, "job "+name+" is not known any more")
		case s.Final():
			parts = append(parts, "job "+name+" ended "+string(s))
		default:
			return "", false
		}
	}
	return strings.Join(parts, ", "), true
}
