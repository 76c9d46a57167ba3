package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/internal/day"
	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/queue"
)

// demoFlags are those of berth up that mean something beside --demo, which brings machines of its own.
var demoFlags = []string{"demo", "demo-pace", "listen", "http", "http-open", "http-host"}

func (f *upFlags) bindDemo(s *pflag.FlagSet) {
	s.BoolVar(&f.demo, "demo", false, "a made-up day on simulated GPUs, marked as such, in a folder of its own that goes when it ends")
	s.Float64Var(&f.pace, "demo-pace", 1, "so many times as fast")
}

// checkDemo refuses what has no meaning in a demonstration.
func (f *upFlags) checkDemo(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(given *pflag.Flag) {
		if slices.Contains(demoFlags, given.Name) || cmd.InheritedFlags().Lookup(given.Name) != nil {
			return
		}
		err = exit.Errorf(exit.Usage, "--%s means nothing beside --demo, which brings a broker and machines of its own", given.Name)
	})
	if err == nil && (f.pace < 0.1 || f.pace > 20) {
		err = exit.Errorf(exit.Usage, "--demo-pace %g: want 0.1 to 20", f.pace)
	}
	return err
}

// upDemo is a broker, a dashboard, three machines and a made-up day, in a folder of its own; nothing of it stays.
func upDemo(ctx context.Context, g *cli.Globals, f upFlags) (err error) {
	ctx, stop := interruptible(ctx, g)
	defer stop()
	dir, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return exit.Errorf(exit.Failed, "a folder for the demonstration: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := worker.Logger(g)
	// Nothing of it is kept, so nothing of it is forced to the disk.
	broker, err := natsembed.Start(natsembed.Options{StoreDir: filepath.Join(dir, "broker"), Listen: f.listen, Name: queue.DemoBroker,
		SyncInterval: time.Minute, Logger: log})
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	defer broker.Shutdown()
	nc, err := queue.Connect(ctx, queue.ConnectOptions{InProcess: broker, Token: broker.Token(), Name: "berth up --demo", Logger: log})
	if err != nil {
		return cli.Broker(err)
	}
	defer nc.Close()
	q, err := queue.Open(ctx, nc, queue.Options{Logger: log, Now: g.Env().Now})
	if err != nil {
		return cli.Broker(err)
	}
	defer q.Close()

	to := queue.ConnectOptions{URL: broker.ClientURL(), Token: broker.Token()}
	own := g.Within(demoEnv(g.Env(), dir, to))
	door, err := writeDoor(dir, to)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	g.Say("%s", g.Console().Paint(screen.Bold, demoMark+" All of it goes with Ctrl-C."))
	beside, err := startBeside(own, f.atAnyAddress(), q, to, log)
	if err != nil {
		return err
	}
	defer beside.end() // the pages show how it ends
	g.Say("in another terminal: . %s; berth status -w\n", door)
	return playDay(ctx, own, f.pace, q, dir, log)
}

// demoMark is what every screen of a demonstration says.
const demoMark = "Demonstration: simulated GPUs and a made-up day. Nothing here is real."

// interruptible ends with the first Ctrl-C or TERM. The next ones change nothing: it is ending, and leaves nothing behind.
func interruptible(ctx context.Context, g *cli.Globals) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 8)
	g.Env().Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-signals:
			g.Say("ending the demonstration: what runs is stopped, the folder goes")
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-ended }
}

// demoEnv is the world of the demonstration's commands: its own broker, and no trace of another Berth.
func demoEnv(env cli.Env, dir string, to queue.ConnectOptions) cli.Env {
	var kept []string
	for _, kv := range env.Environ {
		if !strings.HasPrefix(kv, "BERTH_") {
			kept = append(kept, kv)
		}
	}
	kept = append(kept, "BERTH_SERVER="+to.URL, "BERTH_TOKEN="+to.Token, "XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME="+dir)
	env.Environ, env.Dir, env.Stdin = kept, dir, bytes.NewReader(nil)
	return env
}

// writeDoor writes what a shell reads to find the demonstration's broker, and says where.
func writeDoor(dir string, to queue.ConnectOptions) (string, error) {
	if err := config.WriteClientFile(filepath.Join(dir, "berth", "client.env"), config.Client{Server: to.URL, Token: to.Token}); err != nil {
		return "", err
	}
	door := filepath.Join(dir, "env")
	return door, os.WriteFile(door, fmt.Appendf(nil, "export BERTH_SERVER=%s BERTH_TOKEN=%s\n", to.URL, to.Token), 0o600)
}

// atAnyAddress finds the dashboard another port when the usual one is taken and nobody asked for it.
func (f upFlags) atAnyAddress() upFlags {
	f.pages.demo, f.pages.anywhere = true, !f.pages.given
	return f
}

// playDay runs the machines and the day until ctx ends, and stops what runs.
func playDay(ctx context.Context, g *cli.Globals, pace float64, q *queue.Queue, dir string, log *slog.Logger) error {
	say := func(format string, args ...any) { g.Say("demo "+format, args...) }
	machines := &day.Fleet{Dir: dir, Pace: pace, Say: say, Start: func(out io.Writer, notify func(chan<- os.Signal, ...os.Signal), args ...string) int {
		env := g.Env()
		env.Args, env.Stdout, env.Stderr, env.Notify = args, out, out, notify
		return cli.Execute(context.WithoutCancel(ctx), Root(env), env)
	}}
	people := &day.Day{Queue: q, Type: typed(g.Env()), Fleet: machines, Dir: dir, Pace: pace, Say: say}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan error, 1)
	go func() { defer cancel(); told <- people.Run(ctx) }()
	err := machines.Run(ctx)
	cancel()
	if told := <-told; told != nil {
		log.Error("demonstration_ended", "err", told)
		err = errors.Join(err, told)
	}
	return err
}

// typed runs commands as the people of the day.
func typed(env cli.Env) day.Command {
	return func(ctx context.Context, user string, stdin []byte, args ...string) ([]byte, error) {
		var out, complaints bytes.Buffer
		env := env
		env.User, env.Args = user, args
		env.Stdin, env.Stdout, env.Stderr = bytes.NewReader(stdin), &out, &complaints
		env.Notify = func(chan<- os.Signal, ...os.Signal) {} // the day ends them
		if code := cli.Execute(ctx, Root(env), env); code != 0 {
			return nil, fmt.Errorf("berth %s: ended with %d: %s", strings.Join(args, " "), code, strings.TrimSpace(complaints.String()))
		}
		return out.Bytes(), nil
	}
}
