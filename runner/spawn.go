package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/shim"
)

// shimEnv keeps a shim small: one thread of Go code is plenty, and its garbage is not worth keeping.
var shimEnv = []string{"GOMAXPROCS=1", "GOGC=25", "GOTRACEBACK=single"}

// blank is a shim that has no order yet, with the folder and the cgroup its run will have. It ends by itself, and takes
// both away, when its socket closes: a worker that dies leaves none.
type blank struct {
	dir   string
	group *cgroup.Group // nil: the machine offers none
	child *os.Process
	conn  *os.File // a socket
}

// newBlank starts one in a folder below spares.
func (s *spares) newBlank(arg string) (_ *blank, err error) {
	b := &blank{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start a shim: %w", err), b.clear())
		}
	}()
	if b.dir, err = os.MkdirTemp(s.dir, ""); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(b.dir, shim.JobDir), 0o755); err != nil {
		return nil, err
	}
	// Now, since making files and folders takes longer than filling or renaming them.
	if err := os.WriteFile(filepath.Join(b.dir, keptFile), nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(b.dir, madeDir), 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFolder(b.dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	args := []string{shim.Arg0, arg + shim.Title}
	if s.tree.Root != "" {
		group, err := s.tree.Create(newToken())
		if err != nil {
			return nil, err
		}
		b.group, args = &group, append(args, group.Dir)
	}
	theirs, err := b.connect()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	b.child, err = os.StartProcess(s.exe, args, &os.ProcAttr{
		Dir: b.dir, Env: shimEnv, Sys: &syscall.SysProcAttr{Setsid: true}, Files: []*os.File{theirs, nil, nil, lock},
	})
	if err != nil {
		b.conn.Close()
	}
	return b, err
}

// lockFolder makes and takes the lock that the shim will hold as long as it lives.
func lockFolder(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, shim.LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return lock, nil
}

// connect makes the socket between worker and shim, and returns the shim's end.
func (b *blank) connect() (theirs *os.File, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(pair[1]), "shim")
	if err := syscall.SetNonblock(pair[0], true); err != nil { // only this end: so that reading can be given up
		_ = syscall.Close(pair[0]) // nothing was sent
		theirs.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	b.conn = os.NewFile(uintptr(pair[0]), "shim")
	return theirs, nil
}

// give gives the order, with the files to hold.
func (b *blank) give(ctx context.Context, order shim.Order, files []*os.File) error {
	stop := context.AfterFunc(ctx, func() { b.conn.Close() })
	defer stop()
	if err := b.send(append(marshal(order), '\n'), files); err != nil {
		return orElse(ctx, err)
	}
	return nil
}

// begin gives the word to start and reads the report.
func (b *blank) begin(ctx context.Context, deadline time.Duration) (shim.Report, error) {
	stop := context.AfterFunc(ctx, func() { b.conn.Close() })
	defer stop()
	var report shim.Report
	_, sendErr := fmt.Fprintf(b.conn, "%s %d\n", shim.Go, deadline)
	err := json.NewDecoder(b.conn).Decode(&report) // a shim that could make nothing of its order has reported already
	if errors.Is(err, io.EOF) {
		err = errors.New("it ended without a report")
	}
	if err != nil {
		return report, orElse(ctx, errors.Join(sendErr, err))
	}
	return report, nil
}

// send writes the order, the files' descriptors with its first bytes.
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
	if sent == len(order) {
		return nil
	}
	if _, err := b.conn.Write(order[sent:]); err != nil {
		return fmt.Errorf("send the order: %w", err)
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

// abandon ends a shim whose run could not be started, and whatever it may have begun.
func (b *blank) abandon(t traces) error {
	b.conn.Close()
	_ = b.child.Kill() // ended already is as good
	_, _ = b.child.Wait()
	return errors.Join(sweep(t), b.clear())
}

// discard ends a shim that gets no order.
func (b *blank) discard() error {
	b.conn.Close()
	_, _ = b.child.Wait() // how it ended is nothing to anybody
	return b.clear()
}

// clear takes away what the shim itself did not.
func (b *blank) clear() error {
	var err error
	if b.group != nil {
		err = b.group.Remove()
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}

// orElse prefers the reason why the caller gave up to what that looked like.
func orElse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// shimWords is what the shim had to say on its standard error, shortened, for an error message.
func shimWords(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, shim.LogFile))
	text := strings.TrimSpace(string(b[:min(len(b), 2000)]))
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// probe starts a process that ends at once inside the cgroup.
func probe(exe, dir string) error {
	group, err := syscall.Open(dir, syscall.O_DIRECTORY|syscall.O_CLOEXEC|syscall.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(group) }() // only named a folder
	child, err := os.StartProcess(exe, []string{shim.Arg0, shim.ArgProbe}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group},
	})
	if err != nil {
		return err
	}
	state, err := child.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("the probe ended with %s", state)
	}
	return err
}
