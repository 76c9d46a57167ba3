package runnertest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/runner"
)

// A run that forks without end gets as many processes as it may have; that more were refused is said.
func testProcesses(t *testing.T, s suite) {
	b := s.setup(t)
	if have := b.r.Isolation(); !slices.Contains(have.Controllers, "pids") {
		t.Skip("DID NOT RUN: " + have.Text)
	}
	run := b.run("print=lit", "bomb")
	run.Limits = runner.Limits{PIDs: 40}
	h := b.start(run)
	b.waitFor(h, "lit")
	b.until("it may not fork any more", func() bool { return refusedForks(h) > 0 })
	if got := len(h.PIDs()); got > 40 {
		t.Errorf("%d processes, 40 were allowed", got)
	}
	b.check(h.Kill(runner.Cancelled, "defused"))
	if exit := b.wait(h); !strings.Contains(strings.Join(exit.Warnings, " "), "more were refused") {
		t.Errorf("warnings %q", exit.Warnings)
	}
	b.nothingLeft()
}

// refusedForks asks the groups of the run's processes.
func refusedForks(h *runner.Handle) int {
	total := 0
	for _, dir := range groupsOf(h) {
		text, _ := os.ReadFile(filepath.Join(dir, "pids.events")) // not every group counts them
		n := 0
		if _, err := fmt.Sscanf(string(text), "max %d", &n); err == nil {
			total += n
		}
	}
	return total
}

// groupsOf are the folders of the control groups of the run's first process.
func groupsOf(h *runner.Handle) []string {
	pids := h.PIDs()
	if len(pids) == 0 {
		return nil
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pids[0])) // it may have ended
	var dirs []string
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 {
			dirs = append(dirs, "/sys/fs/cgroup/"+f[1]+f[2])
		}
	}
	return dirs
}

// Where processors are short a run gets its share by the CPUs it asked for, and all of a run goes when memory is short.
func testWeight(t *testing.T, s suite) {
	b := s.setup(t)
	if have := b.r.Isolation(); !slices.Contains(have.Controllers, "cpu") {
		t.Skip("DID NOT RUN: " + have.Text)
	}
	run := b.run("print=ready", "hang")
	run.Limits = runner.Limits{CPUs: 3, MemoryMB: 512, PIDs: 100}
	h := b.start(run)
	b.waitFor(h, "ready")
	settings := map[string]string{"cpu.weight": "300", "memory.max": "536870912", "memory.oom.group": "1", "pids.max": "100"}
	if b.r.Isolation().Level != runner.FullIsolation { // v1
		settings = map[string]string{"cpu.shares": "3072", "memory.limit_in_bytes": "536870912", "pids.max": "100"}
	}
	groups := groupsOf(h)
	for file, want := range settings {
		if got := setting(groups, file); got != want {
			t.Errorf("%s is %q, want %s, in %v", file, got, want, groups)
		}
	}
	b.check(h.Kill(runner.Cancelled, "enough"))
	b.wait(h)
	b.check(h.Release())
	for _, dir := range groups {
		if _, err := os.Stat(dir); err == nil && strings.Contains(dir, "/berth/") {
			t.Errorf("the group %s is left", dir)
		}
	}
}

// setting is what the first group that has the file says in it.
func setting(groups []string, file string) string {
	for _, dir := range groups {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	return ""
}
