package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/runner/shim"
)

// Adopt finds the runs that an earlier worker left in the store. Those whose shim lives go on under the returned
// handles; of those that have ended meanwhile Wait returns the exit at once; those whose shim was killed are swept and
// end as shim_lost. Lost are the ones nothing can be waited for: the machine was restarted, or the worker ended before
// the run was started, or a newer Berth started it, which is left alone. Call it once, before the first Start, while no other worker uses the store.
func (p *Process) Adopt(ctx context.Context) ([]*Handle, []Lost, error) {
	entries, err := os.ReadDir(p.runs)
	if err != nil {
		return nil, nil, fmt.Errorf("look for runs to adopt: %w", err)
	}
	var handles []*Handle
	var lost []Lost
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(p.runs, e.Name())
		if newer := newerThanKnown(dir); newer != "" {
			lost = append(lost, Lost{ID: e.Name(), Dir: dir, Why: newer, Newer: true})
			continue
		}
		h, why, err := p.adopt(ctx, dir)
		switch {
		case err != nil:
			for _, h := range handles {
				h.Detach()
			}
			return nil, nil, fmt.Errorf("adopt run %s: %w", e.Name(), err)
		case h != nil:
			handles = append(handles, h)
		default:
			lost = append(lost, Lost{ID: e.Name(), Dir: dir, Note: noteIn(dir), Why: why})
		}
	}
	return handles, lost, nil
}

// newerThanKnown says that a run's folder has a form this Berth does not know. Nothing else of it is read then: what it
// means could only be guessed.
func newerThanKnown(dir string) string {
	var form struct {
		Version int `json:"version"`
	}
	if err := readJSON(filepath.Join(dir, keptFile), &form); err != nil || form.Version <= keptVersion {
		return ""
	}
	return fmt.Sprintf("a newer Berth keeps this run (version %d of %s; this one knows up to %d): start that worker again and it goes on; "+
		"otherwise its shim ends it when the session is over", form.Version, filepath.Join(dir, keptFile), keptVersion)
}

// adopt returns the run in a folder, or why it is lost.
func (p *Process) adopt(ctx context.Context, dir string) (h *Handle, lost string, err error) {
	var k kept
	if err := readJSON(filepath.Join(dir, keptFile), &k); err != nil {
		return nil, neverStarted, nil //nolint:nilerr // no run.json, or half of one, is what it looks like
	}
	for {
		alive, err := locked(dir)
		if err != nil {
			return nil, "", err
		}
		var state shim.State
		stateErr := readJSON(filepath.Join(dir, shim.StateFile), &state)
		switch {
		case !alive:
			return p.adoptEnded(dir, k, state, stateErr)
		case stateErr == nil:
			pidfd, err := proc.Open(state.Shim.PID)
			if err == nil && proc.Alive(state.Shim.PID, state.Shim.Start) {
				return p.attach(dir, k, state, nil, pidfd), "", nil
			}
			if err == nil {
				pidfd.Close()
			}
		}
		// The shim is just starting, or just ending: either ends soon.
		select {
		case <-ctx.Done():
			return nil, "", context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// adoptEnded takes a run whose shim is gone.
func (p *Process) adoptEnded(dir string, k kept, state shim.State, stateErr error) (*Handle, string, error) {
	if _, err := os.Stat(filepath.Join(dir, shim.ExitFile)); err == nil {
		return p.attach(dir, k, state, nil, nil), "", nil
	}
	if k.BootID != proc.BootID() {
		return nil, "the machine was restarted while it ran", nil
	}
	if stateErr == nil {
		return p.attach(dir, k, state, nil, nil), "", nil
	}
	if err := sweep(tracesOf(k, state)); err != nil {
		return nil, "", err
	}
	if err := after(k.After); err != nil {
		p.logger.Warn("run_not_tidied", "run", k.ID, "err", err)
	}
	return nil, neverStarted, nil
}

const neverStarted = "the worker ended before the run was started: nothing of it was found"

// locked reports whether a shim holds the run's folder.
func locked(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, shim.LockFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
