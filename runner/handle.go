package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/runner/shim"
)

// Handle is a worker's end of one run. Safe for concurrent use. End it with Release or Detach.
type Handle struct {
	p     *Process
	dir   string
	kept  kept
	state shim.State
	child *os.Process // nil when an earlier worker started the shim
	pidfd *os.File    // of the shim; nil when it is gone already

	done     chan struct{} // closed once exit is there
	exit     Exit
	watching sync.WaitGroup

	mu     sync.Mutex
	note   []byte
	ask    *stop       // the first stop asked for
	guard  *time.Timer // kills a shim that does not follow
	forced bool        // the guard did
	within *Inside     // what the command stands for, once it runs
}

type stop struct {
	cause Cause
	why   string
}

// guardSlack is how long after its kill a run may still exist before the worker takes over from its shim: more than
// the shim itself gives processes that sit in the kernel.
const guardSlack = 45 * time.Second

// handle attaches to a run whose shim lives.
func (p *Process) handle(dir string, k kept, state shim.State, child *os.Process) (*Handle, error) {
	pidfd, err := proc.Open(state.Shim.PID)
	if err != nil {
		return nil, fmt.Errorf("watch the shim of run %s: %w", k.ID, err)
	}
	return p.attach(dir, k, state, child, pidfd), nil
}

func (p *Process) attach(dir string, k kept, state shim.State, child *os.Process, pidfd *os.File) *Handle {
	h := &Handle{p: p, dir: dir, kept: k, state: state, child: child, pidfd: pidfd, done: make(chan struct{})}
	if h.note = k.Note; child == nil { // an earlier worker's run: it may have had more to say since
		h.note = noteIn(dir)
	}
	h.watching.Go(h.watch)
	return h
}

// watch waits for the end of the shim, then finds out how the run ended.
func (h *Handle) watch() {
	if h.pidfd != nil && awaitExit(h.pidfd) != nil {
		return // detached
	}
	if h.child != nil {
		_, _ = h.child.Wait() // reaps the shim; how the run ended stands in exit.json
	}
	h.exit = h.conclude()
	close(h.done)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guard != nil {
		h.guard.Stop()
	}
}

// awaitExit blocks, without a thread, until the process of a pidfd ends or the pidfd is closed.
func awaitExit(pidfd *os.File) error {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
}

// ID is the run's id.
func (h *Handle) ID() string { return h.kept.ID }

// Dir is the run's folder.
func (h *Handle) Dir() string { return h.dir }

// StartedAt is when the command was started.
func (h *Handle) StartedAt() time.Time { return h.state.StartedAt }

// Done is closed when Wait would return an exit.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Wait returns how the run ended, once nothing of it is left.
func (h *Handle) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-h.done:
		return h.exit, nil
	default:
	}
	select {
	case <-h.done:
		return h.exit, nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

// Stop asks the run to end: the cause is written where the job can read it, the stop signal goes to all of its
// processes, and when the grace is over they are killed. It returns at once; Wait tells the end. The first cause stays.
func (h *Handle) Stop(cause Cause, why string) error { return h.stop(cause, why, h.kept.Grace) }

// Kill ends the run without grace.
func (h *Handle) Kill(cause Cause, why string) error { return h.stop(cause, why, 0) }

func (h *Handle) stop(cause Cause, why string, grace time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ask == nil {
		h.ask = &stop{cause, why}
	}
	within := grace + h.kept.Lead + h.p.slack
	if h.guard == nil {
		h.guard = time.AfterFunc(within, h.force)
	} else if grace == 0 {
		h.guard.Reset(within)
	}
	err := h.tell(fmt.Sprintf("stop %s %d %s", cause, grace, line(why)))
	if errors.Is(err, errSilent) {
		h.guard.Reset(0)
		return nil
	}
	return err
}

// force takes over from a shim that does not follow: it is killed, and the run's tree with it.
func (h *Handle) force() {
	h.mu.Lock()
	h.forced = true
	h.mu.Unlock()
	err := proc.Signal(h.state.Shim.PID, h.state.Shim.Start, syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		h.p.logger.Error("shim does not follow and cannot be killed", "run", h.kept.ID, "err", err)
	}
}

// Extend moves the session's deadline. Call it only after the broker has confirmed the session: the shim ends the run
// when the deadline passes without a word.
func (h *Handle) Extend(deadline time.Time) error {
	return h.tell(fmt.Sprintf("extend %d", bootDeadline(deadline)))
}

// SetTimeLimit changes the time limit, counted from the start; 0 lifts it.
func (h *Handle) SetTimeLimit(limit time.Duration) error {
	return h.tell(fmt.Sprintf("limit %d", max(0, limit)))
}

// errSilent says that the shim is there and does not read what it is told.
var errSilent = errors.New("the shim does not answer")

// tell writes one line to the shim. A shim that has ended needs no telling.
func (h *Handle) tell(words string) error {
	f, err := os.OpenFile(filepath.Join(h.dir, shim.ControlFile), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reach the shim of run %s: %w", h.kept.ID, err)
	}
	defer f.Close()
	// Less than PIPE_BUF goes into the FIFO whole or not at all.
	if err := f.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return fmt.Errorf("reach the shim of run %s: %w", h.kept.ID, err)
	}
	_, err = f.WriteString(words + "\n")
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("run %s: %w", h.kept.ID, errSilent)
	}
	return fmt.Errorf("tell the shim of run %s: %w", h.kept.ID, err)
}

// line makes a sentence fit one line of the control channel.
func line(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), 1000)]
}

// PIDs lists the processes of the run that live now. The shim is none of them.
func (h *Handle) PIDs() []int {
	select {
	case <-h.done:
		return nil
	default:
	}
	return append(h.p.members(h.traces(), h.state.Shim.PID), h.inside()...)
}

// Note returns the worker's words that are kept beside the run.
func (h *Handle) Note() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.note
}

// SetNote replaces them; a crash leaves the old or the new ones, never a mixture.
func (h *Handle) SetNote(note []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := replaceFile(h.dir, noteFile, note); err != nil {
		return fmt.Errorf("keep the note of run %s: %w", h.kept.ID, err)
	}
	h.note = note
	return nil
}

// Release forgets a run that has ended: its folder goes, with the log. Call it when the result is stored and the log
// is shipped.
func (h *Handle) Release() error {
	select {
	case <-h.done:
	default:
		return fmt.Errorf("run %s has not ended: stop it or detach from it", h.kept.ID)
	}
	h.watching.Wait()
	if h.pidfd != nil {
		h.pidfd.Close()
	}
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("remove the folder of run %s: %w", h.kept.ID, err)
	}
	return nil
}

// Detach lets go of the run without touching it. The next worker adopts it.
func (h *Handle) Detach() {
	if h.pidfd != nil {
		h.pidfd.Close()
	}
	h.watching.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guard != nil {
		h.guard.Stop()
	}
	if h.child != nil {
		_ = h.child.Release()
	}
}

func (h *Handle) traces() traces { return tracesOf(h.kept, h.state) }

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
