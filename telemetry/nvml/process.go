package nvml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var errKilled = errors.New("killed")

// process is one probe as a child.
type process struct {
	cmd       *exec.Cmd
	answers   *os.File
	questions *os.File
	stderr    tail
	killed    atomic.Bool
	gone      chan struct{}
	hangUp    sync.Once
}

// startProcess starts the program again under the probe's name, in its own process group: Ctrl-C on the worker's
// terminal is not for it.
func startProcess(opts Options) (*process, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the NVML probe: %w", err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the NVML probe: %w", errors.Join(err, inRead.Close(), inWrite.Close()))
	}
	p := &process{answers: outRead, questions: inWrite, gone: make(chan struct{})}
	p.cmd = exec.Command(opts.Exe)
	p.cmd.Args = []string{ProbeName, opts.Library}
	p.cmd.Env = append(os.Environ(), opts.Env...)
	p.cmd.ExtraFiles = []*os.File{inRead, outWrite}
	p.cmd.Stdout, p.cmd.Stderr = &p.stderr, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	err = p.cmd.Start()
	_, _ = inRead.Close(), outWrite.Close()
	if err != nil {
		return nil, fmt.Errorf("start the NVML probe %s: %w", opts.Exe, errors.Join(err, inWrite.Close(), outRead.Close()))
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// send never waits: the pipe holds thousands of questions, and there is at most one. A probe that is gone is noticed
// by its silence.
func (p *process) send(r request) {
	line, _ := json.Marshal(r)
	_, _ = p.questions.Write(append(line, '\n'))
}

// kill ends the probe, or asks the driver to let it go when it can.
func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
}

// shut lets the probe end by itself, and kills it after the grace.
func (p *process) shut(grace time.Duration) {
	p.hangUp.Do(func() { _ = p.questions.Close() })
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		p.kill()
	}
}

// wait is over when the process is: it says what ended it.
func (p *process) wait() error {
	err := p.cmd.Wait()
	close(p.gone)
	p.hangUp.Do(func() { _ = p.questions.Close() })
	_ = p.answers.Close()
	text := strings.TrimSpace(p.stderr.String())
	switch {
	case p.killed.Load():
		return fmt.Errorf("the NVML probe did not answer and was %w", errKilled)
	case text != "":
		return fmt.Errorf("the NVML probe ended (%s): %s", p.cmd.ProcessState, text)
	case err != nil:
		return fmt.Errorf("the NVML probe ended: %w", err)
	}
	return errors.New("the NVML probe ended")
}

// tail keeps the last words of a program, one line of at most 500 bytes.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 500

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > 64<<10 {
		t.buf = bytes.Clone(t.buf[len(t.buf)-tailSize:])
	}
	return len(b), nil
}

// String is the first line for a program that crashed (what follows is a stack), else what there is.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.buf))
	if first, _, ok := strings.Cut(text, "\n"); ok {
		text = first
	}
	return text[:min(len(text), tailSize)]
}
