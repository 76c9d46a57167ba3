package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// A job's own mistakes: each ends cleanly and says why, and the next job runs on the same slot.
func TestMistakesEndAloneAndSayWhy(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	w := h.work("alpha", func(c *Config) { c.Grace = 200 * time.Millisecond; c.MaxProcesses = 100 })
	gpu := job.Requirements{GPUs: 1}
	for _, c := range []struct {
		name   string
		needs  string // a controller; without it the row did not run
		spec   func(*job.Spec)
		script []string
		state  job.State
		reason string // or evidence, or warning
	}{
		{"missing binary", "", func(s *job.Spec) { s.Command = job.Command{"/opt/gone/train"} }, nil, job.Failed, "no such file: /opt/gone/train"},
		{"unwritable workdir", "", func(s *job.Spec) {
			s.Workdir = "/proc/self/net"
			s.Command = job.Command{"sh", "-c", "echo model > checkpoint.pt"}
		},
			nil, job.Failed, "checkpoint.pt"},
		{"ignores TERM", "", limited(time.Second), []string{"ignore=TERM", "print=ready", "hang"}, job.TimedOut, "time limit"},
		{"escapes by forking twice", "", limited(time.Second), []string{"daemon-clean=escaped", "ignore=TERM", "hang"}, job.TimedOut, "time limit"},
		{"forks without end", "pids", func(s *job.Spec) { s.Command = job.Command{"sh", "-c", "while :; do sleep 600 & done"} }, nil, job.Failed, "more were refused"},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: the next one is the proof
			if have := w.runner.Isolation(); c.needs != "" && !slices.Contains(have.Controllers, c.needs) {
				t.Skipf("DID NOT RUN: %s", have.Text)
			}
			spec := h.spec(c.script...)
			if c.spec != nil {
				c.spec(&spec)
			}
			r := h.result(queue.JobRef(h.send(job.Job{Spec: spec, Requirements: gpu})))
			said := fmt.Sprintf("%s %s %q", r.Reason, r.Evidence, r.Warnings)
			if r.State != c.state || len(r.Attempts) != 1 || !strings.Contains(said, c.reason) {
				t.Errorf("%s after %d attempts: %s; want %s and %q", r.State, len(r.Attempts), said, c.state, c.reason)
			}
			h.nextRuns(gpu)
		})
	}
}

func limited(d time.Duration) func(*job.Spec) {
	return func(s *job.Spec) { s.TimeLimit = job.Duration(d) }
}

// nextRuns shows that the worker takes the next job, and that it works.
func (h *house) nextRuns(req job.Requirements) {
	h.t.Helper()
	if r := h.result(queue.JobRef(h.submit(req, "print=fine"))); r.State != job.Succeeded {
		h.t.Errorf("the next job: %s: %s", r.State, r.Reason)
	}
}

// loud writes as much as it can, then tells how much memory its shim (its parent) took at most, in KiB.
const loud = `%s; sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' /proc/$PPID/status >&2`

// A job that writes as fast as it can, in lines and in one line without an end, is not slowed down and hurts nobody:
// worker and shim hold a few pieces of it at a time, the log stream gets what log_cap allows, and other jobs run.
func TestOutputWithoutEndHurtsNobody(t *testing.T) {
	size, limit := 64<<20, int64(16<<20)
	if os.Getenv("BERTH_LONG") != "" {
		size = 1 << 30
	}
	for name, writes := range map[string]string{
		"lines":    fmt.Sprintf("yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -c %d", size),
		"one line": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "")
			w := h.spawn(workerOrder{URL: h.broker.URL(), Machine: "alpha", Store: t.TempDir(), LogCap: limit})
			h.nextRuns(job.Requirements{}) // what a first job costs is not what is measured
			before := peak(t, w.Process.Pid)
			spec := h.spec()
			spec.Command = job.Command{"sh", "-c", fmt.Sprintf(loud, writes)}
			n := h.send(job.Job{Spec: spec})
			for range 3 {
				h.nextRuns(job.Requirements{})
			}
			r := h.result(queue.JobRef(n))
			if r.State != job.Succeeded || !slices.ContainsFunc(r.Warnings, func(s string) bool { return strings.Contains(s, "log_cap") }) {
				t.Errorf("%s (%s), warnings %q: want success and a word about the output that was not kept", r.State, r.Reason, r.Warnings)
			}
			if grown := peak(t, w.Process.Pid) - before; grown > 48<<10 {
				t.Errorf("the worker grew by %d KiB while %d KiB were written", grown, size>>10)
			}
			out, errs := h.logOf(n, 1)
			if kept := int64(len(out)); kept > limit || kept < limit/2 {
				t.Errorf("%d bytes in the log stream, log_cap %d", kept, limit)
			}
			shim := strings.TrimSpace(errs[strings.LastIndexByte(strings.TrimSpace(errs), '\n')+1:])
			if kib, err := strconv.Atoi(shim); err != nil || kib == 0 || kib > 128<<10 {
				t.Errorf("the shim took %q KiB at most (%v)", shim, err)
			}
			if !strings.Contains(errs, "log_cap") {
				t.Errorf("the log does not say where it was cut: %.300q", errs)
			}
		})
	}
}

// peak is the most memory a process has taken so far, in KiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// While the disk is full a run goes on; what of its output could not be kept is said, how it ended is known, and the
// next job runs.
func TestDiskFullWhileLogging(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("DID NOT RUN: mount a small disk: %v (it takes root)", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	h := newHouse(t, "")
	h.work("alpha", func(c *Config) { c.Store = filepath.Join(disk, "store") })
	spec := h.spec(fmt.Sprint("flood=", 32<<20), "err=the last words", "exit=3")
	n := h.send(job.Job{Spec: spec})
	r := h.result(queue.JobRef(n))
	if r.State != job.Failed || r.Exit.Code != 3 || !strings.Contains(strings.Join(r.Warnings, " "), "no space left") {
		t.Errorf("%s (%s), warnings %q: want the job's own exit, and a word about the disk", r.State, r.Reason, r.Warnings)
	}
	out, _ := h.logOf(n, 1)
	if len(out) < 1<<20 || len(out) > 4<<20 {
		t.Errorf("%d bytes of the log were kept on a disk of 4 MiB", len(out))
	}
	h.nextRuns(job.Requirements{})
}
