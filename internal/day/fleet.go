package day

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Worker runs berth with these arguments to its end, as a process of its own would: it takes its signals from what it
// gives to notify, and writes its log to log. It returns the exit code.
type Worker func(log io.Writer, notify func(chan<- os.Signal, ...os.Signal), args ...string) int

// Fleet is the day's machines: a worker each, with cards that are not there.
type Fleet struct {
	Start Worker
	Dir   string // of the day; each machine has its files in it
	Pace  float64
	Say   func(format string, args ...any)

	mu      sync.Mutex
	signals map[string]chan<- os.Signal // of the workers that run now
}

const (
	// again is how often a worker is told that it shall end: the first interrupt lets its runs finish, the next stops
	// them.
	again = 300 * time.Millisecond
	// reborn is the pause before a worker that failed is started again.
	reborn = time.Second
)

// Run starts the machines and keeps them until ctx ends; then it stops what they run, and returns when all has ended.
func (f *Fleet) Run(ctx context.Context) error {
	sources := make([]string, len(fleet))
	for i, m := range fleet {
		var err error
		if sources[i], err = m.write(f.Dir); err != nil {
			return err
		}
	}
	if err := f.writeSettings(); err != nil {
		return err
	}
	f.signals = map[string]chan<- os.Signal{}
	errs := make([]error, len(fleet))
	var wg sync.WaitGroup
	for i, m := range fleet {
		wg.Go(func() { errs[i] = f.keep(ctx, m, sources[i]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// keep is one machine's life: its worker is started again whenever it ends.
func (f *Fleet) keep(ctx context.Context, m simulated, source string) error {
	for {
		err := f.serve(ctx, m, source)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			f.Say("%v, and is started again; its log is %s", err, f.log(m.name))
			pause(ctx, reborn)
		}
	}
}

// serve runs one worker to its end.
func (f *Fleet) serve(ctx context.Context, m simulated, source string) error {
	name := m.name
	log, err := os.OpenFile(f.log(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("the log of %s: %w", name, err)
	}
	defer log.Close()
	over := make(chan struct{})
	var stopping sync.WaitGroup
	stopping.Go(func() { f.stop(ctx, name, over) })
	// Its broker is reached from this machine alone, with a token that nobody else can read: root's jobs are root's.
	args := []string{"worker", "--name", name, "--gpu-source", "sim:" + source, "--store", filepath.Join(f.Dir, name),
		"--config", f.settings(), "--label", Label, "--allow-root"}
	code := f.Start(log, func(c chan<- os.Signal, _ ...os.Signal) { f.know(name, c) }, append(args, m.args...)...)
	f.know(name, nil)
	close(over)
	stopping.Wait()
	if code != 0 {
		return fmt.Errorf("the worker of %s ended with %d", name, code)
	}
	return nil
}

// writeSettings writes the workers' settings: what takes minutes elsewhere takes moments here.
func (f *Fleet) writeSettings() error {
	text := fmt.Sprintf("BERTH_WORKER_PYTHON=none\nBERTH_WORKER_RUNNER=process\nBERTH_WORKER_SETTLE=%s\nBERTH_WORKER_WARMUP=%s\nBERTH_WORKER_RESTORE_AFTER=%s\n",
		beats(f.Pace, 3), beats(f.Pace, 8), beats(f.Pace, 12))
	if err := os.WriteFile(f.settings(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("the workers' settings: %w", err)
	}
	return nil
}

func (f *Fleet) settings() string { return filepath.Join(f.Dir, "worker.env") }

func (f *Fleet) log(name string) string { return filepath.Join(f.Dir, name+".log") }

func (f *Fleet) know(name string, c chan<- os.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signals[name] = c
}

// signal reaches a machine's worker, if it has one that listens.
func (f *Fleet) signal(name string, s os.Signal) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.signals[name] == nil {
		return false
	}
	select {
	case f.signals[name] <- s:
	default: // it has enough of them
	}
	return true
}

// replace ends a machine's worker as an upgrade does: what runs goes on, and the next worker adopts it.
func (f *Fleet) replace(name string) error {
	if !f.signal(name, syscall.SIGTERM) {
		return fmt.Errorf("%s has no worker now", name)
	}
	return nil
}

// stop ends a worker and what it runs once ctx has ended.
func (f *Fleet) stop(ctx context.Context, name string, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		f.signal(name, os.Interrupt)
		select {
		case <-over:
			return
		case <-tick.C:
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// beats are so many beats of the day: seconds at pace 1.
func beats(pace, n float64) time.Duration { return time.Duration(n / pace * float64(time.Second)) }
