package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ticks a second in /proc: 100 on every Linux that Go runs on.
const ticks = 100

// cpu is what the process has used since it began, itself and its children that have ended.
func cpu(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	total := 0
	for _, field := range stat(tb, pid)[11:15] {
		n, err := strconv.Atoi(field)
		if err != nil {
			tb.Fatal(err)
		}
		total += n
	}
	return time.Duration(total) * time.Second / ticks
}

// stat are the fields of /proc/<pid>/stat after the name: 0 is the state, 1 the parent.
func stat(tb testing.TB, pid int) []string {
	tb.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// memory of a process in MiB: its share of what is shared (PSS), and all it sees (RSS).
func memory(tb testing.TB, pid int) (pss, rss float64) {
	tb.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(f[1], 64) // the first line is a range, not a number
		switch f[0] {
		case "Pss:":
			pss = kib / 1024
		case "Rss:":
			rss = kib / 1024
		}
	}
	return pss, rss
}

// children of a process that live now, with their names.
func children(tb testing.TB, parent int) map[int]string {
	tb.Helper()
	found := map[int]string{}
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		tb.Fatal(err)
	}
	for _, path := range dirs {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
		fields := strings.Fields(string(data[end+1:]))
		if fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found[pid] = string(data[open+1 : end])
		}
	}
	return found
}

// ownCPU is what this process has used.
func ownCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestProc(t *testing.T) {
	t.Parallel()
	self := os.Getpid()
	pss, rss := memory(t, self)
	if pss <= 1 || rss < pss || cpu(t, self) <= 0 && ownCPU(t) <= 0 {
		t.Errorf("this process: pss %v MiB, rss %v MiB, cpu %v", pss, rss, cpu(t, self))
	}
	if _, ok := children(t, os.Getppid())[self]; !ok {
		t.Error("this process is not among its parent's children")
	}
}
