package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/runner/fakerun"
	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/runner/shim"
)

func startHere(t *testing.T, script ...string) *Handle {
	t.Helper()
	p, err := New(Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	p.slack = 50 * time.Millisecond
	h, err := p.Start(t.Context(), Run{ID: "5.1", Command: fakerun.Command(script...), Env: fakerun.Env(), Dir: "/", Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Detach)
	return h
}

func freeze(t *testing.T, h *Handle) {
	t.Helper()
	if err := proc.Signal(h.state.Shim.PID, h.state.Shim.Start, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// A shim that does not follow is taken over from; what was asked for stays the cause.
func TestFrozenShim(t *testing.T) {
	t.Parallel()
	h := startHere(t, "children=2", "hang")
	freeze(t, h)
	if err := h.Stop(Cancelled, "cancelled by ada"); err != nil {
		t.Fatal(err)
	}
	exit, err := h.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if exit.Cause != Cancelled || exit.Why != "cancelled by ada" || exit.Code != -1 || !strings.Contains(strings.Join(exit.Warnings, " "), "did not follow") {
		t.Errorf("ended with %q %q %d, warnings %q", exit.Cause, exit.Why, exit.Code, exit.Warnings)
	}
	if left := h.traces().living(); len(left) != 0 {
		t.Errorf("still alive: %v", left)
	}
}

// A control channel that nobody reads fills up; telling does not hang.
func TestDeafShim(t *testing.T) {
	t.Parallel()
	h := startHere(t, "hang")
	freeze(t, h)
	var err error
	for i := 0; err == nil && i < 5000; i++ {
		err = h.Extend(time.Now().Add(time.Hour))
	}
	if err == nil || !strings.Contains(err.Error(), "5.1") {
		t.Fatalf("a full channel said %v", err)
	}
	if err := h.Kill(Drained, "enough"); err != nil {
		t.Fatal(err)
	}
	if exit, err := h.Wait(t.Context()); err != nil || exit.Cause != Drained {
		t.Errorf("ended with %q (%v)", exit.Cause, err)
	}
}

// A worker that ended between making the folder and starting the shim leaves a run that never was.
func TestAdoptNeverStarted(t *testing.T) {
	t.Parallel()
	p, err := New(Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for id, files := range map[string]map[string][]byte{
		"1.1": {},
		"2.1": {keptFile: []byte("{half")},
		"3.1": {keptFile: marshal(kept{ID: "3.1", Mark: newMark("3.1"), BootID: proc.BootID()}), noteFile: []byte("mine")},
	} {
		if err := os.Mkdir(p.StateDir(id), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(p.StateDir(id), name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	handles, lost, err := p.Adopt(t.Context())
	if err != nil || len(handles) != 0 || len(lost) != 3 {
		t.Fatalf("adopted %d, lost %v: %v", len(handles), lost, err)
	}
	for _, l := range lost {
		if !strings.Contains(l.Why, "before the run was started") || l.ID == "3.1" && !bytes.Equal(l.Note, []byte("mine")) {
			t.Errorf("lost %+v", l)
		}
		if err := l.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// What a job leaves as its result is looked at with care.
func TestOutputIsNoPlainFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, dir} {
		if got, err := shim.ReadResult(path); err == nil || got != nil {
			t.Errorf("%s gave %q", path, got)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]syscall.Signal{"": syscall.SIGTERM, "SIGUSR1": syscall.SIGUSR1, "usr1": syscall.SIGUSR1, "INT": syscall.SIGINT} {
		if got, err := signalNumber(name, syscall.SIGTERM); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", name, got, err, want)
		}
	}
}

// A spare shim that was killed while it waited is not used, and is replaced.
func TestSpareKilled(t *testing.T) {
	t.Parallel()
	p, err := New(Options{StoreDir: t.TempDir(), Spares: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.spares.makers.Wait()
	p.spares.mu.Lock()
	for _, b := range p.spares.ready {
		if err := b.child.Kill(); err != nil {
			t.Error(err)
		}
		_, _ = b.child.Wait()
	}
	p.spares.mu.Unlock()
	for _, id := range []string{"1.1", "2.1", "3.1"} {
		h, err := p.Start(t.Context(), Run{ID: id, Command: fakerun.Command("exit=4"), Env: fakerun.Env(), Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := h.Wait(t.Context()); err != nil || exit.Code != 4 {
			t.Errorf("ended with %d (%v)", exit.Code, err)
		}
		h.Detach()
	}
	p.spares.makers.Wait()
	if n := len(p.spares.ready); n != 2 {
		t.Errorf("%d spares ready, want 2", n)
	}
}
