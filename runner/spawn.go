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

	"github.com/berthq/berth/runner/shim"
)

// spawn gives the order to a shim, a spare one if there is one, and waits for its report.
func (p *Process) spawn(ctx context.Context, dir string, order shim.Order, extra []*os.File) (*os.Process, shim.State, error) {
	lock, err := os.OpenFile(filepath.Join(dir, shim.LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, shim.State{}, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, shim.State{}, fmt.Errorf("lock the run's folder: %w", err)
	}
	b := p.spares.take()
	if b == nil {
		if b, err = newBlank(p.exe, shim.ArgNow); err != nil {
			return nil, shim.State{}, err
		}
	}
	defer b.conn.Close()
	order.Folder = dir
	report, err := b.converse(ctx, order, append([]*os.File{lock}, extra...))
	if err == nil && report.State != nil {
		return b.child, *report.State, nil
	}
	// The shim ends by itself after a refusal. After anything else nothing it may have begun can stay.
	if err != nil {
		_ = b.child.Kill()
	}
	_, waitErr := b.child.Wait()
	if err == nil {
		return nil, shim.State{}, refusal(report)
	}
	sweepErr := sweep(tracesOf(kept{Mark: order.Mark, Cgroup: order.Cgroup}, shim.State{}))
	return nil, shim.State{}, errors.Join(fmt.Errorf("the shim did not come up: %w%s", err, shimWords(dir)), waitErr, sweepErr)
}

// converse gives the order, with the files to hold, and reads the report.
func (b *blank) converse(ctx context.Context, order shim.Order, files []*os.File) (shim.Report, error) {
	stop := context.AfterFunc(ctx, func() { b.conn.Close() })
	defer stop()
	var report shim.Report
	if err := b.send(marshal(order), files); err != nil {
		return report, orElse(ctx, err)
	}
	if err := json.NewDecoder(b.conn).Decode(&report); err != nil {
		if err == io.EOF {
			err = errors.New("it ended without a report")
		}
		return report, orElse(ctx, err)
	}
	return report, nil
}

// orElse prefers the reason why the caller gave up to what that looked like.
func orElse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func refusal(r shim.Report) error {
	if r.Code == 0 {
		return fmt.Errorf("the shim could not start the command: %s", r.Reason)
	}
	return &StartError{Code: r.Code, Reason: r.Reason}
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
	defer syscall.Close(group)
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
