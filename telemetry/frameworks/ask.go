package frameworks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxAnswer = 64 << 10        // bytes; a thousand GPUs fit
	maxTail   = 4 << 10         // bytes of what a probe printed, for the error
	lastGasp  = 5 * time.Second // for a killed process to end; longer means that the driver holds it
)

// errStuck is wrapped when a probe cannot be killed: it hangs inside the driver.
var errStuck = errors.New("it hangs in the driver and cannot be killed")

// script is a Python program that writes one JSON value to the descriptor it is given.
type script struct {
	interpreter string
	environ     []string
	text        string
	args        []string
}

// ask runs the script to its end, or to the context's, and reads its answer. When it returns nothing of the script's
// process group is left, but for a process held by the driver (errStuck, and the channel closes when that has ended).
func (s script) ask(ctx context.Context, answer any) (stuck <-chan struct{}, err error) {
	// A file rather than a pipe: it needs nobody to read it, and a stray grandchild cannot keep it open on us.
	paper, err := memfile("berth-probe")
	if err != nil {
		return nil, err
	}
	defer paper.Close()
	said := &tail{}
	cmd := exec.Command(s.interpreter, append([]string{"-B", "-c", s.text, "3"}, s.args...)...)
	cmd.Env, cmd.Dir = s.environ, "/"
	cmd.Stdout, cmd.Stderr = said, said
	cmd.ExtraFiles = []*os.File{paper}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = lastGasp
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.interpreter, err)
	}
	if exited := supervise(ctx, cmd.Process.Pid); exited != nil {
		dead := make(chan struct{})
		go func() { // ends with the process
			defer close(dead)
			<-exited
			_ = cmd.Wait()
		}()
		return dead, errStuck
	}
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, read(paper, answer, waitErr, said.String())
}

// supervise waits for the process to end, or for ctx, and leaves nobody of its group. It returns a channel only when
// the process would not die.
func supervise(ctx context.Context, pid int) <-chan struct{} {
	exited := make(chan struct{})
	go func() { // ends with the process
		defer close(exited)
		// It is not reaped here: as long as it is not, its number and its group's cannot be somebody else's.
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
	}()
	select {
	case <-exited:
	case <-ctx.Done():
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	if awaitEnd(exited, lastGasp) {
		return nil
	}
	return exited
}

func awaitEnd(exited <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-exited:
		return true
	case <-timer.C:
		return false
	}
}

// read takes the answer from the paper. Without one, how the process ended and what it said last is the error.
func read(paper io.ReaderAt, answer any, waitErr error, said string) error {
	buf := make([]byte, maxAnswer)
	n, err := paper.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read its answer: %w", err)
	}
	if err := json.Unmarshal(buf[:n], answer); err == nil {
		return nil
	}
	text := "it ended without an answer"
	var exit *exec.ExitError
	if errors.As(waitErr, &exit) {
		text = describe(exit)
	}
	if line := lastLine(said); line != "" {
		text += "; its last words: " + line
	}
	return errors.New(text)
}

func describe(exit *exec.ExitError) string {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "it crashed (" + unix.SignalName(status.Signal()) + ")"
	}
	return fmt.Sprintf("it ended with exit code %d", exit.ExitCode())
}

func memfile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory for the probe's answer: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// tail keeps the end of what is written to it.
type tail struct{ buf []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > maxTail {
		p = p[n-maxTail:]
	}
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return n, nil
}

func (t *tail) String() string { return string(t.buf) }

const maxWords = 300

func lastLine(said string) string {
	lines := bytes.FieldsFunc([]byte(said), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(strings.ToValidUTF8(string(lines[i]), "\uFFFD"))
		if line == "" {
			continue
		}
		if r := []rune(line); len(r) > maxWords {
			line = string(r[:maxWords]) + "…"
		}
		return line
	}
	return ""
}
