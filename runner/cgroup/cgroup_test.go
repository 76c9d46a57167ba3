package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// real returns this machine's tree, or skips aloud.
func real(t *testing.T) Tree {
	t.Helper()
	tree := Probe(func(dir string) error {
		cmd := exec.Command("/bin/true")
		return in(cmd, dir).Run()
	})
	t.Log(tree.Text)
	if tree.Level == None {
		t.Skip("DID NOT RUN: " + tree.Text)
	}
	return tree
}

// in makes a command start inside a group.
func in(cmd *exec.Cmd, dir string) *exec.Cmd {
	f, err := os.Open(dir)
	if err != nil {
		return cmd // its start will say so
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(f.Fd())}
	cmd.ExtraFiles = []*os.File{f}
	return cmd
}

func TestGroup(t *testing.T) {
	t.Parallel()
	tree := real(t)
	g, err := tree.Create(fmt.Sprintf("test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(g.Kill(), g.Remove()) })
	if err := tree.Limit(g, Limits{CPUs: 2, PIDs: 50, MemoryMB: 512}); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Create(filepath.Base(g.Dir)); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second group of the same name: %v", err)
	}
	cmd := in(exec.Command("/bin/sh", "-c", "setsid sleep 60 & exec sleep 60"), g.Dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !g.Populated() {
		t.Error("not populated while a process runs in it")
	}
	for limit := time.Now().Add(30 * time.Second); len(g.PIDs()) != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("processes %v, want the two sleeps", g.PIDs())
		}
	}
	if err := g.Remove(); err == nil {
		t.Error("a populated group was removed")
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v", err)
	}
	for limit := time.Now().Add(30 * time.Second); g.Populated(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("populated after the kill")
		}
	}
	if cpu, ok := g.CPUSeconds(); !ok || cpu <= 0 {
		t.Errorf("processor time %v, %v", cpu, ok)
	}
	if err := os.Mkdir(g.Dir+"/below", 0o755); err != nil { // as a run that makes groups of its own leaves them
		t.Fatal(err)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Remove(), g.Kill()); err != nil || g.Populated() || len(g.PIDs()) != 0 {
		t.Errorf("a group that is gone is no error: %v", err)
	}
}

// A machine with all controllers, as files: what is set, and how the counters are read.
func TestFull(t *testing.T) {
	t.Parallel()
	tree := Tree{Level: Full, Root: t.TempDir(), Controllers: []string{"memory", "pids", "cpu"}}
	g, err := tree.Create("1.1")
	if err := errors.Join(err, tree.Limit(g, Limits{MemoryMB: 64, CPUs: 3, PIDs: 100})); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.weight": "300", "pids.max": "100",
	} {
		if got, err := os.ReadFile(filepath.Join(g.Dir, file)); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %s", file, got, err, want)
		}
	}
	for file, content := range map[string]string{
		"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n",
		"memory.peak":   "67108865\n", "cpu.stat": "usage_usec 1500000\nuser_usec 1\n", "cgroup.events": "populated 1\nfrozen 0\n",
	} {
		if err := os.WriteFile(filepath.Join(g.Dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cpu, cpuKnown := g.CPUSeconds()
	peak, peakKnown := g.PeakMemoryMB()
	if g.OOMKills() != 3 || cpu != 1.5 || !cpuKnown || peak != 65 || !peakKnown || !g.Populated() {
		t.Errorf("kills %d, cpu %v, peak %d, populated %v", g.OOMKills(), cpu, peak, g.Populated())
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	g := Group{Dir: t.TempDir()}
	if _, ok := g.CPUSeconds(); ok {
		t.Error("processor time of a group that does not count it")
	}
	if _, ok := g.PeakMemoryMB(); ok {
		t.Error("peak memory of a group that does not count it")
	}
}

func TestProbeThatFails(t *testing.T) {
	t.Parallel()
	tree := Probe(func(string) error { return errors.New("no clone3 here") })
	if tree.Level != None || tree.Root != "" {
		t.Errorf("level %s at %q although nothing can be started in a group", tree.Level, tree.Root)
	}
	if !strings.HasPrefix(tree.Text, "process group") {
		t.Errorf("text %q", tree.Text)
	}
}

func ExampleProbe() {
	tree := Probe(func(dir string) error { return in(exec.Command("/bin/true"), dir).Run() })
	switch tree.Level {
	case Full, Hybrid, Fence, None:
		fmt.Println("probed")
	}
	// Output: probed
}
