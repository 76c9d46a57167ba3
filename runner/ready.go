package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berthq/berth/runner/shim"
)

// Ready is a run that only waits for the word: its shim has its folder, its locks and its order. A worker makes it ready
// while it still asks for its right to the job. Exactly one of Start and Drop ends it; if the worker dies before, the
// shim ends by itself and the next worker finds that the run never started.
type Ready struct {
	p    *Process
	b    *blank
	kept kept
}

// MakeFolder makes a folder beside the run, with a parent that exists, if it is not there yet.
func (r *Ready) MakeFolder(path string) error {
	err := os.Rename(filepath.Join(r.b.dir, madeDir), path) // far quicker than to make one; an empty one it replaces
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		err = os.MkdirAll(path, 0o700) // another file system, a second call
	}
	return err
}

// Start gives the word. deadline is the worker's session's, zero for none. For the rest it is [Process.Start].
func (r *Ready) Start(ctx context.Context, deadline time.Time) (*Handle, error) {
	defer r.p.spares.refill() // not before: making the next shim would compete with this one's start
	report, err := r.b.begin(ctx, bootDeadline(deadline))
	switch {
	case err != nil:
		err = fmt.Errorf("the shim did not come up: %w", err)
	case report.State != nil:
		r.b.conn.Close()
		return r.p.handle(r.b.dir, r.kept, *report.State, r.b.child)
	case report.Code == 0:
		err = fmt.Errorf("the shim could not start the command: %s", report.Reason)
	default:
		err = &StartError{Code: report.Code, Reason: report.Reason}
	}
	return nil, errors.Join(err, r.b.abandon(tracesOf(r.kept, shim.State{})))
}

// Drop takes back all that was made ready. Nothing of the run is left, and its locks are free.
func (r *Ready) Drop() error {
	defer r.p.spares.refill()
	return r.b.abandon(tracesOf(r.kept, shim.State{}))
}
