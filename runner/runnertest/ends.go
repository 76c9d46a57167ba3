package runnertest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/proc"
)

func testExit(t *testing.T, s suite) {
	for _, c := range []struct {
		name   string
		script []string
		code   int
		signal string
	}{
		{"success", []string{"print=fine"}, 0, ""},
		{"code", []string{"err=no", "exit=33"}, 33, ""},
		{"signal", []string{"kill=HUP"}, 129, "SIGHUP"},
		{"killed", []string{"kill=KILL"}, 137, "SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			before := time.Now()
			h := b.start(b.run(c.script...))
			exit := b.wait(h)
			if exit.Code != c.code || exit.Signal != c.signal || exit.Cause != "" {
				t.Errorf("ended with %d %q %q, want %d %q by itself", exit.Code, exit.Signal, exit.Cause, c.code, c.signal)
			}
			if exit.StartedAt.Before(before) || exit.EndedAt.Before(exit.StartedAt) || !h.StartedAt().Equal(exit.StartedAt) {
				t.Errorf("times are out of order: %v %v %v", before, exit.StartedAt, exit.EndedAt)
			}
			if exit.CPUSeconds <= 0 || exit.PeakMemoryMB == nil || *exit.PeakMemoryMB <= 0 {
				t.Errorf("nothing was counted: %v s, peak %v", exit.CPUSeconds, exit.PeakMemoryMB)
			}
			b.check(h.Release())
			if _, err := os.Stat(b.state()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the run's folder is still there after Release: %v", err)
			}
		})
	}
}

func testEnvironment(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("env")
	run.Env = append(run.Env, "WORD=with spaces\tand = signs", "EMPTY=")
	h := b.start(run)
	got := strings.Split(strings.TrimSpace(b.text(h)), "\n")
	b.wait(h)
	got = slices.DeleteFunc(got, func(e string) bool { return strings.HasPrefix(e, "BERTH_RUN_ID=7.1@") })
	slices.Sort(run.Env)
	if !slices.Equal(got, run.Env) {
		t.Errorf("the job saw\n%q\nwant exactly what it was given and its mark\n%q", got, run.Env)
	}
}

func testRefusals(t *testing.T, s suite) {
	for _, c := range []struct {
		name    string
		change  func(*runner.Run, string)
		code    int
		reasons []string
	}{
		{"no workdir", func(r *runner.Run, dir string) { r.Dir = dir + "/gone" }, 127, []string{"workdir", "/gone", "does not exist"}},
		{"workdir a file", func(r *runner.Run, dir string) { r.Dir = file(dir, "f", "", 0o644) }, 126, []string{"workdir", "not a folder"}},
		{"relative workdir", func(r *runner.Run, _ string) { r.Dir = "here" }, 127, []string{"workdir", "absolute"}},
		{"no command", func(r *runner.Run, _ string) { r.Command = nil }, 127, []string{"empty"}},
		{"not in PATH", func(r *runner.Run, dir string) {
			r.Command, r.Env = []string{"no-such-program"}, []string{"PATH=" + dir}
		}, 127, []string{"command not found: no-such-program", "PATH="}},
		{"no file", func(r *runner.Run, _ string) { r.Command = []string{"./gone.sh"} }, 127, []string{"no such file: ./gone.sh"}},
		{"not executable", func(r *runner.Run, dir string) {
			file(dir, "s.sh", "#!/bin/sh\n", 0o644)
			r.Command = []string{"./s.sh"}
		}, 126, []string{"./s.sh", "not executable", "chmod"}},
		{"a folder", func(r *runner.Run, dir string) { r.Command = []string{dir} }, 126, []string{"is a folder"}},
		{"no interpreter", func(r *runner.Run, dir string) {
			r.Command = []string{file(dir, "s.py", "#!/opt/gone/bin/python3 -u\n", 0o755)}
		}, 127, []string{"s.py", "/opt/gone/bin/python3", "does not exist"}},
		{"not a program", func(r *runner.Run, dir string) { r.Command = []string{file(dir, "data", "\x01\x02", 0o755)} }, 126, []string{"not a program"}},
		{"too long", func(r *runner.Run, _ string) { r.Command = append(r.Command, strings.Repeat("x", 1<<20)) }, 126, []string{"too long"}},
		{"NUL", func(r *runner.Run, _ string) { r.Env = append(r.Env, "A=\x00") }, 126, []string{"NUL"}},
		{"stop signal", func(r *runner.Run, _ string) { r.StopSignal = "NONSENSE" }, 126, []string{"NONSENSE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			run := b.run("hang")
			c.change(&run, b.dir)
			_, err := b.r.Start(b.ctx, run)
			var refused *runner.StartError
			if !errors.As(err, &refused) || refused.Code != c.code {
				t.Fatalf("got %v, want a refusal with code %d", err, c.code)
			}
			for _, word := range c.reasons {
				if !strings.Contains(refused.Reason, word) {
					t.Errorf("reason %q does not say %q", refused.Reason, word)
				}
			}
			left, err := os.ReadDir(filepath.Join(b.store, "runs"))
			b.check(err)
			if len(left) != 0 {
				t.Errorf("a refused run left %v behind", left)
			}
			b.nothingLeft()
			// The same id can be used at once: nothing holds it.
			b.wait(b.start(b.run("exit=0")))
		})
	}
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		b := s.setup(t)
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		if h, err := b.r.Start(ctx, b.run("hang")); err == nil {
			b.check(h.Kill(runner.Cancelled, "raced"))
			b.wait(h)
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
		b.nothingLeft()
	})
}

func file(dir, name, text string, mode os.FileMode) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		panic(err)
	}
	return path
}

func testResult(t *testing.T, s suite) {
	for _, c := range []struct{ name, text, want, warning string }{
		{"json", ` {"loss": 0.25} ` + "\n", `{"loss": 0.25}`, ""},
		{"none", "", "", ""},
		{"not json", "loss=0.25", "", "valid JSON"},
		{"too much", `"` + strings.Repeat("x", 300<<10) + `"`, "", "256 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			source := file(b.dir, "source", c.text, 0o644)
			run := b.run()
			run.Command = []string{"/bin/cp", source, runner.ResultFile(b.state())}
			exit := b.wait(b.start(run))
			if string(exit.Output) != c.want {
				t.Errorf("output %.80q, want %q", exit.Output, c.want)
			}
			if got := strings.Join(exit.Warnings, "\n"); (c.warning == "") != (got == "") || !strings.Contains(got, c.warning) {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

func testStop(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("on=INT", "print=ready", "hang")
	run.StopSignal = "INT"
	run.Grace = time.Second
	h := b.start(run)
	b.waitFor(h, "ready")
	b.check(h.Stop(runner.Cancelled, "cancelled by ada:\nnot needed"))
	b.check(h.Stop(runner.Drained, "too late to be the cause"))
	exit := b.wait(h)
	if exit.Cause != runner.Cancelled || exit.Why != "cancelled by ada: not needed" || exit.Signal != "SIGKILL" {
		t.Errorf("ended with %q %q %q", exit.Cause, exit.Why, exit.Signal)
	}
	if got := string(exit.Tail); !strings.Contains(got, "got INT\ncancelled\ncancelled by ada: not needed\n") {
		t.Errorf("the job was not asked with its signal and the reason: %q", got)
	}
	b.check(h.Stop(runner.Cancelled, "after the end"))
}

// Every process of a run is asked, not its first alone: also one below it, and one with a session of its own.
func testStopTree(t *testing.T, s suite) {
	b := s.setup(t)
	const listen = `trap 'echo $0 heard; exit 0' USR2; echo $0 up; while :; do sleep 0.02; done`
	run := b.run()
	run.Command = []string{"/bin/sh", "-c", `trap 'echo first heard; wait; wait; exit 3' USR2; /bin/sh -c "$1" child & setsid /bin/sh -c "$1" escaped & wait`, "first", listen}
	run.Env, run.StopSignal, run.Grace = []string{"PATH=/bin:/usr/bin"}, "USR2", patience
	h := b.start(run)
	b.waitFor(h, "child up")
	b.waitFor(h, "escaped up")
	b.check(h.Stop(runner.Cancelled, "enough"))
	exit := b.wait(h)
	for _, who := range []string{"first", "child", "escaped"} {
		if !bytes.Contains(exit.Tail, []byte(who+" heard\n")) {
			t.Errorf("%s was not asked: %q", who, exit.Tail)
		}
	}
	if exit.Signal == "SIGKILL" || exit.Cause != runner.Cancelled {
		t.Errorf("ended with %d %q %q, want its own end", exit.Code, exit.Signal, exit.Cause)
	}
	b.nothingLeft()
}

func testStopStubborn(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("ignore=TERM", "print=ready", "hang")
	run.Grace = time.Hour
	h := b.start(run)
	b.waitFor(h, "ready")
	b.check(h.Stop(runner.Drained, "the machine is drained"))
	b.check(h.Kill(runner.Drained, "hastened"))
	if exit := b.wait(h); exit.Cause != runner.Drained || exit.Signal != "SIGKILL" || exit.Why != "the machine is drained" {
		t.Errorf("ended with %q %q %q", exit.Cause, exit.Signal, exit.Why)
	}
	b.nothingLeft()
}

func testDescendants(t *testing.T, s suite) {
	for _, c := range []struct {
		name string
		word string
		last string
		end  func(b *bench, h *runner.Handle)
	}{
		{"after exit", "daemon", "exit=0", func(*bench, *runner.Handle) {}},
		{"after exit, unmarked", "daemon-clean", "exit=0", func(*bench, *runner.Handle) {}},
		{"stopped", "daemon", "hang", func(b *bench, h *runner.Handle) { b.check(h.Stop(runner.Cancelled, "enough")) }},
		{"killed, unmarked", "daemon-clean", "hang", func(b *bench, h *runner.Handle) { b.check(h.Kill(runner.Cancelled, "enough")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			path := filepath.Join(b.dir, "pid")
			run := b.run(c.word+"="+path, "children=3", "print=ready", c.last)
			run.Grace = 300 * time.Millisecond
			h := b.start(run)
			pid, start := b.pid(path)
			if c.last == "hang" {
				b.waitFor(h, "ready")
				if got := h.PIDs(); !slices.Contains(got, pid) {
					t.Errorf("the run's processes %v lack its daemon %d", got, pid)
				}
			}
			c.end(b, h)
			exit := b.wait(h)
			if proc.Alive(pid, start) {
				t.Errorf("the daemon %d outlived its run", pid)
			}
			if c.last == "exit=0" && (exit.Code != 0 || exit.Cause != "" || !strings.Contains(strings.Join(exit.Warnings, " "), "still there")) {
				t.Errorf("exit %d %q, warnings %q: want 0 by itself and a word about what was left", exit.Code, exit.Cause, exit.Warnings)
			}
			if len(exit.Survivors) != 0 || len(h.PIDs()) != 0 {
				t.Errorf("survivors %v, pids %v", exit.Survivors, h.PIDs())
			}
			b.nothingLeft()
		})
	}
}

func testBomb(t *testing.T, s suite) {
	b := s.setup(t)
	h := b.start(b.run("print=lit", "bomb"))
	b.waitFor(h, "lit")
	b.until("it has forked", func() bool { return len(h.PIDs()) > 6 })
	b.check(h.Kill(runner.Cancelled, "defused"))
	if exit := b.wait(h); exit.Cause != runner.Cancelled || len(exit.Survivors) != 0 {
		t.Errorf("ended with %q, survivors %v", exit.Cause, exit.Survivors)
	}
	b.nothingLeft()
}

func testTimeLimit(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("on=TERM", "print=ready", "hang")
	run.TimeLimit, run.Grace = time.Hour, 100*time.Millisecond
	h := b.start(run)
	b.waitFor(h, "ready")
	b.check(h.SetTimeLimit(time.Millisecond))
	exit := b.wait(h)
	if exit.Cause != runner.Timeout || exit.Signal != "SIGKILL" || !strings.Contains(exit.Why, "1ms") {
		t.Errorf("ended with %q %q %q", exit.Cause, exit.Signal, exit.Why)
	}
	if !bytes.Contains(exit.Tail, []byte("got TERM\ntimeout\n")) {
		t.Errorf("the job was not asked first: %q", exit.Tail)
	}
}

func testCheckpoint(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("children=1", "on=USR1", "print=ready", "hang") // the child has no handler: it must not die of the signal
	run.Grace = -1
	run.Checkpoint = &job.Checkpoint{Signal: "SIGUSR1", Before: job.Duration(time.Hour - time.Millisecond)}
	h := b.start(run)
	b.waitFor(h, "ready")
	b.check(h.SetTimeLimit(time.Hour))
	b.waitFor(h, "got USR1\ntimeout\n")
	if got := len(h.PIDs()); got != 2 {
		t.Errorf("%d processes after the checkpoint signal, want the command and its child", got)
	}
	b.check(h.SetTimeLimit(time.Millisecond))
	if exit := b.wait(h); exit.Cause != runner.Timeout || bytes.Count(exit.Tail, []byte("got USR1")) != 1 {
		t.Errorf("ended with %q, output %q; want one checkpoint signal", exit.Cause, exit.Tail)
	}
}

func testSession(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("on=TERM", "print=ready", "hang")
	run.Grace, run.SessionGrace = time.Hour, 50*time.Millisecond
	run.Deadline = time.Now().Add(time.Hour)
	h := b.start(run)
	b.waitFor(h, "ready")
	b.check(h.Extend(time.Now().Add(2 * time.Hour)))
	b.check(h.Extend(time.Now().Add(time.Hour))) // a late one does not shorten it
	select {
	case <-h.Done():
		t.Fatal("the run ended although its session was renewed")
	case <-time.After(50 * time.Millisecond):
	}
	// A worker that dies takes its session with it: the shim alone has to notice.
	h.Detach()
	short := b.run("on=TERM", "print=ready", "hang")
	short.ID, short.Grace, short.SessionGrace = "8.1", time.Hour, 50*time.Millisecond
	short.Deadline = time.Now().Add(2 * time.Second) // the command is deaf to TERM by then, however slow the machine
	lost := b.wait(b.start(short))
	if lost.Cause != runner.SessionLost || lost.Signal != "SIGKILL" {
		t.Errorf("ended with %q %q, want session_lost", lost.Cause, lost.Signal)
	}
	// A worker that was frozen before it could start the run starts nothing.
	mark := filepath.Join(b.dir, "began")
	late := b.run("touch=" + mark)
	late.ID, late.Deadline = "9.1", time.Now().Add(-time.Millisecond)
	if _, err := b.r.Start(b.ctx, late); err == nil {
		t.Error("a run was started although its session was over")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command of a run whose session was over did something")
	}
	b.killShim(syscall.SIGTERM)
	b.succeed()
	handles, _, err := b.r.Adopt(b.ctx)
	b.check(err)
	for _, h := range handles {
		b.check(h.Kill(runner.Cancelled, "the test is over"))
		b.wait(h)
		h.Detach()
	}
}

// A run that takes more host memory than it asked for is ended by the kernel, and the counter says so: the evidence for
// oom_host, also when a child was killed and the command ended with a code of its own.
func testHostMemory(t *testing.T, s suite) {
	b := s.setup(t)
	if !slices.Contains(b.r.Isolation().Controllers, "memory") {
		t.Skip("DID NOT RUN: " + b.r.Isolation().Text)
	}
	run := b.run("print=greedy", "grow=600")
	run.Limits = runner.Limits{MemoryMB: 150, PIDs: 200}
	exit := b.wait(b.start(run))
	if exit.Signal != "SIGKILL" || exit.OOMKills < 1 || exit.Cause != "" {
		t.Errorf("ended with %d %q %q, %d OOM kills; want the kernel's kill, counted", exit.Code, exit.Signal, exit.Cause, exit.OOMKills)
	}
	if exit.PeakMemoryMB == nil || *exit.PeakMemoryMB > 160 || *exit.PeakMemoryMB < 100 {
		t.Errorf("peak %v MiB under a limit of 150", exit.PeakMemoryMB)
	}
	b.nothingLeft()
	run.ID, run.Limits.MemoryMB = "8.1", 2000
	if exit := b.wait(b.start(run)); exit.Code != 0 || exit.OOMKills != 0 || *exit.PeakMemoryMB < 600 {
		t.Errorf("within its limit it ended with %d, %d OOM kills, peak %d MiB", exit.Code, exit.OOMKills, *exit.PeakMemoryMB)
	}
}
