package runnertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/proc"
)

func testAdopt(t *testing.T, s suite) {
	b := s.setup(t)
	gate := filepath.Join(b.dir, "go")
	first := b.start(b.run("lines=3", "wait="+gate, "lines=5", "exit=42"))
	b.waitFor(first, "line 3\n")
	log := first.Log(0)
	f, err := log.Next(b.ctx)
	b.check(err)
	seen, offset := string(f.Data), log.Offset()
	b.check(log.Close())
	first.Detach()

	b.succeed()
	h := b.adopt()
	if h.ID() != "7.1" || !h.StartedAt().Equal(first.StartedAt()) || len(h.PIDs()) != 1 {
		t.Errorf("adopted %s of %v with %v", h.ID(), h.StartedAt(), h.PIDs())
	}
	file(b.dir, "go", "", 0o644)
	rest, end := b.textFrom(h, offset)
	if got, want := seen+rest, "line 1\nline 2\nline 3\nline 1\nline 2\nline 3\nline 4\nline 5\n"; got != want {
		t.Errorf("across the two workers the log reads\n%q, want\n%q", got, want)
	}
	if exit := b.wait(h); exit.Code != 42 || exit.Cause != "" {
		t.Errorf("ended with %d %q, want 42 by itself", exit.Code, exit.Cause)
	}
	if more, _ := b.textFrom(h, end); more != "" {
		t.Errorf("read on from the end: %q", more)
	}
}

func testAdoptEnded(t *testing.T, s suite) {
	b := s.setup(t)
	gate := filepath.Join(b.dir, "go")
	b.start(b.run("wait="+gate, "print=bye", "exit=5")).Detach()
	file(b.dir, "go", "", 0o644)
	b.until("it has ended", func() bool { _, err := os.Stat(filepath.Join(b.state(), "exit.json")); return err == nil })
	b.succeed()
	h := b.adopt()
	if exit := b.wait(h); exit.Code != 5 || exit.Cause != "" || string(exit.Tail) != "bye\n" {
		t.Errorf("ended with %d %q %q", exit.Code, exit.Cause, exit.Tail)
	}
	b.check(h.Release())
	if handles, lost, err := b.r.Adopt(b.ctx); err != nil || len(handles)+len(lost) != 0 {
		t.Errorf("a released run was found again: %v %v %v", handles, lost, err)
	}
}

func testShimKilled(t *testing.T, s suite) {
	b := s.setup(t)
	path := filepath.Join(b.dir, "pid")
	h := b.start(b.run("daemon="+path, "print=ready", "hang"))
	b.waitFor(h, "ready")
	pid, start := b.pid(path)
	b.killShim(syscall.SIGKILL)
	exit := b.wait(h)
	if exit.Cause != runner.ShimLost || exit.Code != -1 {
		t.Errorf("ended with %q %d: an end nobody saw must not be guessed", exit.Cause, exit.Code)
	}
	if proc.Alive(pid, start) {
		t.Error("its daemon lives on")
	}
	if string(exit.Tail) != "ready\n" {
		t.Errorf("tail %q", exit.Tail)
	}
	b.nothingLeft()
}

func testShimKilledUnseen(t *testing.T, s suite) {
	b := s.setup(t)
	h := b.start(b.run("children=2", "print=ready", "hang"))
	b.waitFor(h, "ready")
	shim := b.shim()
	h.Detach()
	b.check(b.r.Close())
	b.check(proc.Signal(shim.PID, shim.Start, syscall.SIGKILL))
	b.until("the shim is gone", func() bool { return !proc.Alive(shim.PID, shim.Start) })
	b.r = b.open(t, b.store)
	if exit := b.wait(b.adopt()); exit.Cause != runner.ShimLost {
		t.Errorf("ended with %q, want shim_lost", exit.Cause)
	}
	b.nothingLeft()
}

func testShimTerminated(t *testing.T, s suite) {
	b := s.setup(t)
	h := b.start(b.run("on=TERM", "print=ready", "hang"))
	b.waitFor(h, "ready")
	b.killShim(syscall.SIGHUP) // a closing terminal is nothing to it
	b.killShim(syscall.SIGTERM)
	b.waitFor(h, "got TERM\ndrained\n")
	b.check(h.Kill(runner.Cancelled, "hastened"))
	if exit := b.wait(h); exit.Cause != runner.Drained {
		t.Errorf("ended with %q %q, want drained", exit.Cause, exit.Why)
	}
}

func testLocks(t *testing.T, s suite) {
	b := s.setup(t)
	path := filepath.Join(b.dir, "gpu0.lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	b.check(err)
	b.check(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	run := b.run("daemon="+filepath.Join(b.dir, "pid"), "print=ready", "hang")
	run.ExtraFiles = []*os.File{lock}
	h := b.start(run)
	b.waitFor(h, "ready")
	b.check(lock.Close()) // the worker dies

	if free(b, path) {
		t.Error("the lock is free while the run goes on")
	}
	for _, pid := range h.PIDs() {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		b.check(err)
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); to == path { // a descriptor may be gone
				t.Errorf("process %d of the job holds the lock file", pid)
			}
		}
	}
	b.check(h.Kill(runner.Cancelled, "enough"))
	b.wait(h)
	if !free(b, path) {
		t.Error("the lock is held after the run has ended")
	}
}

func free(b *bench, path string) bool {
	f, err := os.Open(path)
	b.check(err)
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		b.check(err)
	}
	return err == nil
}

func testNote(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("hang")
	run.Note = []byte(`{"epoch":1}`)
	h := b.start(run)
	if got := string(h.Note()); got != `{"epoch":1}` {
		t.Errorf("note %q", got)
	}
	b.check(h.SetNote([]byte(`{"epoch":2}`)))
	h.Detach()
	b.succeed()
	h = b.adopt()
	if got := string(h.Note()); got != `{"epoch":2}` {
		t.Errorf("the next worker reads %q", got)
	}
	b.check(h.Kill(runner.Cancelled, "enough"))
	b.wait(h)
}

var bootID = regexp.MustCompile(`"boot_id":"[^"]+"`)

// A restarted machine is a folder whose boot is another one, and no shim.
func testRebooted(t *testing.T, s suite) {
	b := s.setup(t)
	run := b.run("print=ready", "hang")
	run.Note = []byte("whose")
	h := b.start(run)
	b.waitFor(h, "ready")
	shim := b.shim()
	h.Detach()
	b.check(b.r.Close())
	b.check(proc.Signal(shim.PID, shim.Start, syscall.SIGTERM)) // the machine goes down, and takes all with it
	b.until("the shim is gone", func() bool { return !proc.Alive(shim.PID, shim.Start) })
	b.check(os.Remove(filepath.Join(b.state(), "exit.json")))
	path := filepath.Join(b.state(), "run.json")
	text, err := os.ReadFile(path)
	b.check(err)
	b.check(os.WriteFile(path, bootID.ReplaceAll(text, []byte(`"boot_id":"another"`)), 0o600))

	b.r = b.open(t, b.store)
	handles, lost, err := b.r.Adopt(b.ctx)
	b.check(err)
	if len(handles) != 0 || len(lost) != 1 || lost[0].ID != "7.1" || string(lost[0].Note) != "whose" || !strings.Contains(lost[0].Why, "restarted") {
		t.Fatalf("adopted %d, lost %+v", len(handles), lost)
	}
	b.check(lost[0].Remove())
}
