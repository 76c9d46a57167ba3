package runnertest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/fakerun"
)

// pipe is a run of several steps; each is a fakerun script.
func (b *bench) pipe(scripts ...[]string) runner.Run {
	run := b.run()
	run.Command = nil
	for i, script := range scripts {
		name := string(rune('a' + i))
		run.Steps = append(run.Steps, runner.Step{Name: name, Command: fakerun.Command(script...), Env: []string{"STEP=" + name}})
	}
	return run
}

// codes are how the steps ended: a code, "-" where it did not run, "?" where it did not end.
func codes(states []runner.StepState) []string {
	var out []string
	for _, s := range states {
		switch {
		case s.StartedAt.IsZero():
			out = append(out, "-")
		case s.EndedAt.IsZero():
			out = append(out, "?")
		case s.Signal != "":
			out = append(out, s.Signal)
		default:
			out = append(out, string(rune('0'+s.Code%10)))
		}
	}
	return out
}

func (b *bench) steps(exit runner.Exit, code int, want ...string) {
	b.t.Helper()
	if got := codes(exit.Steps); exit.Code != code || !slices.Equal(got, want) {
		b.t.Errorf("ended with %d (%s), steps %v; want %d, %v", exit.Code, exit.Cause, got, code, want)
	}
}

func testSteps(t *testing.T, s suite) {
	b := s.setup(t)
	left := filepath.Join(b.dir, "left")
	h := b.start(b.pipe([]string{"print=one", "daemon=" + left, "env"}, []string{"print=two", "env"}, []string{"err=three"}))
	exit := b.wait(h)
	b.steps(exit, 0, "0", "0", "0")
	text := b.text(h)
	if !strings.Contains(text, "one\n") || !strings.Contains(text, "two\n") || !strings.Contains(text, "three\n") {
		t.Errorf("the steps wrote %q", text)
	}
	if strings.Count(text, "STEP=a\n") != 1 || strings.Count(text, "STEP=b\n") != 1 {
		t.Errorf("each step has its own environment: %q", text)
	}
	for i, step := range exit.Steps {
		if step.EndedAt.Before(step.StartedAt) || i > 0 && step.StartedAt.Before(exit.Steps[i-1].StartedAt) {
			t.Errorf("step %s ran from %v to %v", step.Name, step.StartedAt, step.EndedAt)
		}
	}
	b.nothingLeft()
}

func testStepsFail(t *testing.T, s suite) {
	b := s.setup(t)
	never := filepath.Join(b.dir, "never")
	exit := b.wait(b.start(b.pipe([]string{"exit=0"}, []string{"exit=3"}, []string{"touch=" + never})))
	b.steps(exit, 3, "0", "3", "-")
	if exists(never) {
		t.Error("a step ran after one that failed")
	}
}

func testStepMissing(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.pipe([]string{"exit=0"}, nil, []string{"exit=0"})
	run.Steps[1].Command = []string{"no-such-program-9"}
	exit := b.wait(b.start(run))
	b.steps(exit, 127, "0", "7", "-")
	if !strings.Contains(exit.Refused, "no-such-program-9") {
		t.Errorf("refused with %q", exit.Refused)
	}
	b.nothingLeft()
}

func testStepsResume(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.pipe([]string{"print=again"}, []string{"print=on"})
	run.FirstStep = 1
	h := b.start(run)
	b.steps(b.wait(h), 0, "-", "0")
	if text := b.text(h); text != "on\n" {
		t.Errorf("the log reads %q", text)
	}
}

func testStepsStop(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.pipe([]string{"exit=0"}, nil, []string{"exit=0"})
	run.Steps[1].Command = []string{"/bin/sh", "-c", "trap 'exit 0' TERM; echo up; while :; do /bin/sleep 0.1; done"}
	h := b.start(run)
	b.waitFor(h, "up\n")
	b.check(h.Stop(runner.Cancelled, "enough"))
	exit := b.wait(h)
	if exit.Cause != runner.Cancelled || codes(exit.Steps)[2] != "-" {
		t.Errorf("ended with %q, steps %v", exit.Cause, codes(exit.Steps))
	}
	b.nothingLeft()
}

// testStepsAdopt: the worker is away while one step ends and the next begins.
func testStepsAdopt(t *testing.T, s suite) {
	b := s.setup(t)
	gate, second := filepath.Join(b.dir, "go"), filepath.Join(b.dir, "second")
	last := filepath.Join(b.dir, "last")
	h := b.start(b.pipe([]string{"wait=" + gate}, []string{"touch=" + second, "wait=" + last}, []string{"exit=4"}))
	h.Detach()
	b.check(b.r.Close())
	file(b.dir, "go", "", 0o644)
	b.until("the second step runs", func() bool { return exists(second) })
	b.r = b.open(t, b.store)
	h = b.adopt()
	b.until("the second step shows", func() bool {
		states, err := h.Steps()
		b.check(err)
		return slices.Equal(codes(states), []string{"0", "?", "-"})
	})
	file(b.dir, "last", "", 0o644)
	b.steps(b.wait(h), 4, "0", "0", "4")
}

// testStepsShimKilled: what nobody saw is not guessed, and nothing of a later step is left.
func testStepsShimKilled(t *testing.T, s suite) {
	b := s.setup(t)
	h := b.start(b.pipe([]string{"exit=0"}, []string{"print=up", "children=2", "hang"}, []string{"exit=0"}))
	b.waitFor(h, "up\n")
	b.until("the second step shows", func() bool {
		states, err := h.Steps()
		b.check(err)
		return slices.Equal(codes(states), []string{"0", "?", "-"})
	})
	b.killShim(syscall.SIGKILL)
	exit := b.wait(h)
	if exit.Cause != runner.ShimLost || !slices.Equal(codes(exit.Steps), []string{"0", "?", "-"}) {
		t.Errorf("ended with %q, steps %v", exit.Cause, codes(exit.Steps))
	}
	b.nothingLeft()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
