package runner

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/berthq/berth/runner/shim"
)

// shimEnv keeps a shim small: one thread of Go code is plenty, and its garbage is not worth keeping.
var shimEnv = []string{"GOMAXPROCS=1", "GOGC=25", "GOTRACEBACK=single"}

// blank is a shim that has no order yet. It ends by itself when its socket closes: a worker that dies leaves none.
type blank struct {
	child *os.Process
	conn  *os.File // a socket
}

func newBlank(exe, arg string) (*blank, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("a socket to a shim: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "shim")
	defer theirs.Close()
	if err := syscall.SetNonblock(pair[0], true); err != nil { // only this end: so that reading can be given up
		syscall.Close(pair[0])
		return nil, fmt.Errorf("a socket to a shim: %w", err)
	}
	conn := os.NewFile(uintptr(pair[0]), "shim")
	child, err := os.StartProcess(exe, []string{shim.Arg0, arg + shim.Title}, &os.ProcAttr{
		Dir: "/", Env: shimEnv, Sys: &syscall.SysProcAttr{Setsid: true}, Files: []*os.File{theirs},
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start a shim: %w", err)
	}
	return &blank{child, conn}, nil
}

// send writes the order, the files' descriptors with its first bytes, and ends the shim's reading.
func (b *blank) send(order []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	conn, err := b.conn.SyscallConn()
	if err != nil {
		return err
	}
	sent, rights := 0, syscall.UnixRights(fds...)
	var sendErr error
	err = conn.Write(func(fd uintptr) bool {
		sent, sendErr = syscall.SendmsgN(int(fd), order, rights, nil, syscall.MSG_NOSIGNAL)
		return sendErr != syscall.EAGAIN && sendErr != syscall.EINTR
	})
	if err == nil {
		err = sendErr
	}
	if err != nil {
		return fmt.Errorf("send the order: %w", err)
	}
	if _, err := b.conn.Write(order[sent:]); err != nil {
		return fmt.Errorf("send the order: %w", err)
	}
	return conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_WR) }) // a shim that is gone shows when its report is read
}

// discard ends a shim that gets no order.
func (b *blank) discard() {
	b.conn.Close()
	_, _ = b.child.Wait() // how it ended is nothing to anybody
}

// spares are shims made ready beforehand, so that a run does not wait for a binary to load. Safe for concurrent use.
type spares struct {
	exe    string
	want   int
	logger *slog.Logger

	mu     sync.Mutex
	ready  []*blank
	making int
	closed bool
	makers sync.WaitGroup
}

// take returns a spare shim, or nil, and has the next one made.
func (s *spares) take() *blank {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.fill()
	for len(s.ready) > 0 {
		last := len(s.ready) - 1
		b := s.ready[last]
		s.ready = s.ready[:last]
		if b.alive() {
			return b
		}
		b.discard()
	}
	return nil
}

// alive reports whether the shim still holds its end: one that waited for long may have been killed.
func (b *blank) alive() bool {
	conn, err := b.conn.SyscallConn()
	if err != nil {
		return false
	}
	gone := true
	err = conn.Control(func(fd uintptr) { gone = readable(int(fd)) })
	return err == nil && !gone
}

// refill has the missing ones made.
func (s *spares) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fill()
}

// fill has as many made as are missing. The lock is held.
func (s *spares) fill() {
	for !s.closed && len(s.ready)+s.making < s.want {
		s.making++
		s.makers.Go(s.make)
	}
}

func (s *spares) make() {
	b, err := newBlank(s.exe, shim.ArgSpare)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making--
	switch {
	case err != nil:
		s.logger.Warn("no spare shim: the next run starts a little later", "err", err)
	case s.closed:
		b.discard()
	default:
		s.ready = append(s.ready, b)
	}
}

func (s *spares) close() {
	s.mu.Lock()
	s.closed = true
	ready := s.ready
	s.ready = nil
	s.mu.Unlock()
	s.makers.Wait()
	for _, b := range ready {
		b.discard()
	}
}
