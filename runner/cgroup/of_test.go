package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// The groups of a process that belongs to somebody else are found by a word in their path.
func TestOf(t *testing.T) {
	t.Parallel()
	tree := real(t)
	word := fmt.Sprintf("of-%d", os.Getpid())
	g, err := tree.Create("x" + word)
	if err != nil {
		t.Fatal(err)
	}
	cmd := in(exec.Command("sleep", "60"), g.Dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	if got, _ := Of(cmd.Process.Pid, word); got != g.Dir {
		t.Errorf("found in %q, is in %q", got, g.Dir)
	} else if !slices.Contains((Group{got}).PIDs(), cmd.Process.Pid) {
		t.Error("the process is not listed in its group")
	}
	for _, word := range []string{"", "another"} {
		if got, legacy := Of(os.Getpid(), word); got != "" || legacy != nil {
			t.Errorf("%q: %q, %v", word, got, legacy)
		}
	}
}
