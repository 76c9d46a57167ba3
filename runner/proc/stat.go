package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
)

// Stat is one process as /proc/<pid>/stat shows it.
type Stat struct {
	PID, PPID, PGID, SID int
	State                byte   // R S D Z T …
	Start                uint64 // field 22: clock ticks after boot; tells a process from a later one with its pid
}

// Zombie reports whether the process has ended and only waits to be reaped.
func (s Stat) Zombie() bool { return s.State == 'Z' || s.State == 'X' }

var errStat = errors.New("unreadable /proc stat line")

// Read returns the process with that pid.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(b)
}

// parseStat reads "pid (comm) S ppid pgrp session …". The name may hold blanks and parentheses, so the fields are
// counted from its last ")".
func parseStat(b []byte) (Stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open {
		return Stat{}, errStat
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return Stat{}, errStat
	}
	s := Stat{State: f[0][0]}
	var err error
	number := func(b []byte) int {
		n, e := strconv.Atoi(string(b))
		err = errors.Join(err, e)
		return n
	}
	s.PID = number(bytes.TrimSpace(b[:open]))
	s.PPID, s.PGID, s.SID = number(f[1]), number(f[2]), number(f[3])
	start, e := strconv.ParseUint(string(f[19]), 10, 64)
	s.Start = start
	return s, errors.Join(err, e)
}

// Alive reports whether the process that had that pid since start still runs. A zombie does not.
func Alive(pid int, start uint64) bool {
	s, err := Read(pid)
	return err == nil && s.Start == start && !s.Zombie()
}

// All returns every process that could be read. Processes come and go while it looks: who needs certainty asks again
// until the answer stays the same.
func All() ([]Stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]Stat, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := Read(pid); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

// Descendants returns the living descendants of root among all, root itself left out. Below a subreaper none is
// missed: an orphan becomes the subreaper's child.
func Descendants(all []Stat, root int) []Stat {
	children := make(map[int][]Stat, len(all))
	for _, s := range all {
		children[s.PPID] = append(children[s.PPID], s)
	}
	var found []Stat
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, c := range children[queue[0]] {
			queue = append(queue, c.PID)
			if !c.Zombie() {
				found = append(found, c)
			}
		}
	}
	return found
}
