package container

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The first arguments of this binary when it is started for a container.
const (
	Arg    = "berth-container"     // the helper
	ArgEnd = "berth-container-end" // removes what it left
)

// self is this binary as it runs, also when it was replaced on disk meanwhile.
const self = "/proc/self/exe"

// Command is the helper's command line.
func Command(run string) []string { return []string{self, Arg, run} }

// endLimit bounds how long the removal is tried, an engine that is being restarted included. It is less than what a
// worker waits for a shim that does not follow.
const endLimit = 30 * time.Second

// Take runs the helper and ends the process when it was started as one. First thing in main.
func Take() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case Arg:
		os.Exit(help())
	case ArgEnd:
		if err := end(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// passed are the signals that reach the container: those a person or the shim may send.
var passed = []os.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGXCPU, unix.SIGWINCH, unix.SIGCONT,
}

func help() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passed...)
	p, err := readPlan(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth:", err)
		return CodeEngine
	}
	p.Env = append(p.Env, marks(os.Environ())...)
	h := &helper{plan: p, stdout: os.Stdout, stderr: os.Stderr}
	return h.live(signals)
}

// marks are the variables by which the run's processes are found: the shim gave them to the helper, and what it stands
// for must carry them too.
func marks(environ []string) []string {
	var found []string
	for _, entry := range environ {
		if strings.HasPrefix(entry, "BERTH_RUN_ID=") {
			found = append(found, entry)
		}
	}
	return found
}

// end removes the containers of a run: engine, store, run.
func end(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s wants an engine, a store and a run", ArgEnd)
	}
	e, err := Open(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // only connections that nobody uses
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	for {
		if _, err = e.Sweep(ctx, args[1], args[2]); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond): // an engine has no news to wait for while it is away
		}
	}
}
