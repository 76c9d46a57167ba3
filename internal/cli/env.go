package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berthq/berth/internal/cli/screen"
)

// Env is the world of one command.
type Env struct {
	Args    []string // without the program's name
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string // KEY=value
	Dir     string   // the caller's folder
	User    string   // as the system knows the caller
	Host    string
	Now     func() time.Time
	// Notify delivers signals of the process, as [signal.Notify] does; a test sends its own.
	Notify func(chan<- os.Signal, ...os.Signal)
}

// System is the world of this process.
func System() Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // the caller's folder is gone; only a relative path would notice
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir,
		User: userName(), Host: host, Now: time.Now, Notify: signal.Notify}
}

// userName is the account's name; a uid without one (a container) is u<uid>.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "u" + strconv.Itoa(os.Getuid())
}

// Getenv reads one variable; the last setting counts, as for exec.
func (e Env) Getenv(key string) string {
	value, _ := e.LookupEnv(key)
	return value
}

// LookupEnv also tells unset from empty.
func (e Env) LookupEnv(key string) (value string, found bool) {
	for _, kv := range e.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			value, found = v, true
		}
	}
	return value, found
}

// Screen is what is known about standard output, Console about standard error.
func (e Env) Screen() screen.Terminal { return screen.Inspect(e.Stdout, e.Getenv) }

// Console is where Berth's own words go while stdout carries data.
func (e Env) Console() screen.Terminal { return screen.Inspect(e.Stderr, e.Getenv) }

// Interruptible gives a context that Ctrl-C (or TERM) ends. The second signal meets the default again and kills.
func (e Env) Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	e.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
