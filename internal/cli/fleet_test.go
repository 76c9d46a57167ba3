package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/queue"
)

// station is a small real fleet: an embedded broker, one worker on simulated GPUs, and whoever types commands at it.
type station struct {
	t       *testing.T
	environ []string
	dir     string
	q       *queue.Queue
	worker  *process
}

const stationMachine = "station"

// newStation starts the broker and the worker, and waits until the machine has come.
func newStation(t *testing.T, gpus string) *station {
	t.Helper()
	s := newBroker(t)
	s.startWorker(stationMachine, "--gpu-source", gpus, "--label", "rack=a")
	return s
}

// newBroker is a station without a machine.
func newBroker(t *testing.T) *station {
	t.Helper()
	dir := t.TempDir()
	broker, err := natsembed.Start(natsembed.Options{StoreDir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0", SyncInterval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Shutdown)
	s := &station{t: t, dir: dir, environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state", "TERM=xterm",
		"BERTH_WORKER_STORE=" + dir + "/store", "BERTH_WORKER_ALLOW_ROOT=true", "BERTH_SERVER=" + broker.ClientURL(), "BERTH_TOKEN=" + broker.Token(),
	}}
	nc, err := queue.Connect(t.Context(), queue.ConnectOptions{URL: broker.ClientURL(), Token: broker.Token(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	if s.q, err = queue.OpenClient(t.Context(), nc, queue.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.q.Close(); nc.Close() })
	return s
}

// startWorker runs one as a process until the test ends.
func (s *station) startWorker(name string, flags ...string) {
	s.t.Helper()
	p := &process{cmd: exec.Command("worker", append([]string{"--name", name}, flags...)...), log: &output{}, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.environ, s.dir, p.log, p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		p.end()
		if s.t.Failed() {
			s.t.Logf("[worker]\n%s", p.log)
		}
	})
	s.worker = p
	s.awaitMachine(func(m queue.Machine) bool { return m.Name == name && !slices.ContainsFunc(m.GPUs, unmetered) })
}

func unmetered(g queue.GPU) bool { return g.UtilizationPercent == nil || g.MemoryFreeMB == nil }

// awaitMachine waits until a machine announces what is looked for.
func (s *station) awaitMachine(is func(queue.Machine) bool) {
	s.t.Helper()
	ctx, found := context.WithTimeout(s.t.Context(), patience)
	defer found()
	seen := false
	err := s.q.WatchMachines(ctx, func(m queue.Machine) {
		if is(m) {
			seen = true
			found()
		}
	}, func(string) {})
	if !seen {
		s.t.Fatalf("no machine is as it should be: %v", err)
	}
}

// env is the world of one command that ada types.
func (s *station) env(args []string, stdout, stderr io.Writer) cli.Env {
	host, err := os.Hostname()
	if err != nil {
		s.t.Fatal(err)
	}
	return cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Environ: s.environ, Dir: s.dir, User: "ada", Host: host, Now: time.Now,
		Notify: func(chan<- os.Signal, ...os.Signal) {},
	}
}

// berth types a command into a pipe.
func (s *station) berth(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	env := s.env(args, &out, &errs)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	code = cli.Execute(ctx, operator.Root(env), env)
	return code, out.String(), errs.String()
}

// must is berth for what has to go well; it gives what was printed.
func (s *station) must(args ...string) string {
	s.t.Helper()
	code, stdout, stderr := s.berth(args...)
	if code != 0 {
		s.t.Fatalf("berth %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return strings.TrimSpace(stdout)
}

// onScreen types a command on a terminal of that width, and gives what is on it when the command has ended.
func (s *station) onScreen(width uint16, args ...string) (code int, shown string) {
	s.t.Helper()
	master, slave, err := terminal(width)
	if err != nil {
		s.t.Fatal(err)
	}
	screen := make(chan string, 1)
	go func() {
		text, err := io.ReadAll(master) // EIO is how a terminal ends
		if err != nil && !errors.Is(err, syscall.EIO) {
			text = append(text, err.Error()...)
		}
		screen <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	env := s.env(args, slave, slave)
	code = cli.Execute(s.t.Context(), operator.Root(env), env)
	if err := slave.Close(); err != nil {
		s.t.Error(err)
	}
	shown = <-screen
	if err := master.Close(); err != nil {
		s.t.Error(err)
	}
	return code, shown
}

// held submits a job that does not start by itself.
func (s *station) held(flags ...string) string {
	s.t.Helper()
	return s.must(slices.Concat([]string{"submit", "-q", "--hold"}, flags, []string{"--", "true"})...)
}

// await waits until a job has that state.
func (s *station) await(id, state string) {
	s.t.Helper()
	ref, err := queue.ParseRef(id)
	if err != nil {
		s.t.Fatal(err)
	}
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := s.q.Show(s.t.Context(), ref)
		if err != nil {
			s.t.Fatal(err)
		}
		if string(v.State) == state {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("job %s is %s, not %s", id, v.State, state)
		}
	}
}

// verbs are the commands of a tree that do something themselves, by what is typed after the program's name.
func verbs(root *cobra.Command) map[string]*cobra.Command {
	found := map[string]*cobra.Command{}
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" || cmd.Name() == "help" || cmd.Hidden {
			return
		}
		if path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" "); cmd != root && cmd.Runnable() && (!cmd.HasSubCommands() || cmd.Flags().HasFlags()) {
			found[path] = cmd
		}
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(root)
	return found
}

// until waits for something that a program shows.
func (s *station) until(is func() bool, complaint func() string) {
	s.t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatal(complaint())
		}
	}
}
