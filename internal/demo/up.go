package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/queue"
)

// up starts broker and worker as berth up does, and returns when the machine is there. end drains them and waits.
func (s *stage) up(ctx context.Context, source string) (end func() error, err error) {
	fmt.Fprintf(s.out, "%s %s\n", s.term.Paint(screen.Dim, "$"), s.term.Paint(screen.Bold, "berth up --gpu-source "+source))
	signals := make(chan chan<- os.Signal, 1)
	log := &readyLog{ready: make(chan struct{})}
	env := s.env
	env.Notify = func(c chan<- os.Signal, _ ...os.Signal) { signals <- c }
	env.Stdout, env.Stderr = io.Discard, log
	env.Args = []string{"up", "--listen", "127.0.0.1:0", "--store", filepath.Join(s.dir, "store"),
		"--gpu-source", source, "--name", filepath.Base(s.dir)} // a name of its own: two demonstrations share no simulated GPU

	ended := make(chan struct{})
	code := 0
	go func() {
		defer close(ended)
		code = cli.Execute(context.WithoutCancel(ctx), operator.Root(env), env)
	}()
	end = func() error {
		select {
		case c := <-signals:
			c <- os.Interrupt
		case <-ended:
		}
		<-ended
		if code != 0 {
			return fmt.Errorf("berth up ended with %d:\n%s", code, log)
		}
		return nil
	}
	if err := s.awaitMachine(ctx, log.ready, ended); err != nil {
		return nil, errors.Join(fmt.Errorf("berth up: %w", err), end())
	}
	return end, nil
}

var errEnded = errors.New("it ended before it was ready")

// awaitMachine waits until the worker takes jobs and the fleet knows its machine.
func (s *stage) awaitMachine(ctx context.Context, ready, ended <-chan struct{}) error {
	select {
	case <-ready:
	case <-ended:
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c, _, err := config.LoadClient(config.ClientSources{Environ: s.env.Environ})
	if err != nil {
		return err
	}
	nc, err := queue.Connect(ctx, queue.ConnectOptions{URL: c.Server, Token: c.Token, Name: "demo"})
	if err != nil {
		return err
	}
	defer nc.Close()
	q, err := queue.OpenClient(ctx, nc, queue.Options{})
	if err != nil {
		return err
	}
	defer q.Close()
	watch, found := context.WithCancel(ctx)
	defer found()
	if err := q.WatchMachines(watch, func(queue.Machine) { found() }, func(string) {}); err != nil {
		return err
	}
	return ctx.Err()
}

// readyLog keeps a daemon's log and tells when it says that it is ready.
type readyLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	told  bool
	ready chan struct{}
}

func (l *readyLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.told && bytes.Contains(p, []byte(`"msg":"ready"`)) {
		l.told = true
		close(l.ready)
	}
	return l.text.Write(p)
}

func (l *readyLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
