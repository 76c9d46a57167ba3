package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func prepared(t *testing.T, p *Process, id string) *Ready {
	t.Helper()
	r, err := p.Prepare(t.Context(), Run{ID: id, Command: []string{"/bin/sh", "-c", "touch started"}, Dir: t.TempDir(), Note: []byte("mine")})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A prepared run that is dropped has never begun, and nothing of it is left.
func TestDropLeavesNothing(t *testing.T) {
	t.Parallel()
	p, err := New(Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	work := t.TempDir()
	r, err := p.Prepare(t.Context(), Run{ID: "1.1", Command: []string{"/usr/bin/touch", "started"}, Dir: work})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.StateDir("1.1")); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	if err := r.Drop(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{p.StateDir("1.1"), filepath.Join(work, "started")} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := r.b.child.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("its shim lives: %v", err)
	}
	again := prepared(t, p, "1.1") // the name is free
	h, err := again.Start(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := h.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	if string(h.Note()) != "mine" {
		t.Errorf("note %q", h.Note())
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

// A worker that ends between a run's order and the word has not started it, and its successor knows.
func TestWorkerEndsBeforeTheWord(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	p, err := New(Options{StoreDir: store})
	if err != nil {
		t.Fatal(err)
	}
	r := prepared(t, p, "7.1")
	r.b.conn.Close() // what the kernel does for a worker that is killed
	if _, err := r.b.child.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := New(Options{StoreDir: store})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	handles, lost, err := next.Adopt(t.Context())
	if err != nil || len(handles) != 0 || len(lost) != 1 || lost[0].Why != neverStarted || string(lost[0].Note) != "mine" {
		t.Fatalf("%v %+v %v", handles, lost, err)
	}
}

// The word says how long the session lasts: one that is over by then starts nothing.
func TestWordComesTooLate(t *testing.T) {
	t.Parallel()
	p, err := New(Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := prepared(t, p, "8.1").Start(t.Context(), time.Now().Add(-time.Second)); err == nil {
		t.Error("it was started")
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := prepared(t, p, "8.2").Start(stopped, time.Time{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that nobody waits for: %v", err)
	}
	for _, id := range []string{"8.1", "8.2"} {
		if _, err := os.Stat(p.StateDir(id)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("run %s left its folder: %v", id, err)
		}
	}
}

func TestMakeFolder(t *testing.T) {
	t.Parallel()
	p, err := New(Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := prepared(t, p, "9.1")
	defer func() {
		if err := r.Drop(); err != nil {
			t.Error(err)
		}
	}()
	home := t.TempDir()
	for _, name := range []string{"first", "second"} { // the second is not the one that was made beforehand
		if err := r.MakeFolder(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
	full := filepath.Join(home, "first", "epoch-7")
	if err := os.WriteFile(full, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := prepared(t, p, "9.2")
	if err := errors.Join(other.MakeFolder(filepath.Join(home, "first")), other.Drop()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Errorf("what an earlier attempt left is gone: %v", err)
	}
}
