package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/internal/logs"
	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/worker"
)

// Root is the program worker.
func Root(env cli.Env) *cobra.Command {
	cmd := command()
	cmd.Version = cli.Version()
	build(cmd, cli.NewGlobals(cmd, env))
	return cmd
}

// New is `berth worker`: the same, under the global flags of its parent.
func New(g *cli.Globals) *cobra.Command {
	cmd := command()
	build(cmd, g)
	return cmd
}

func command() *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "run jobs on this machine",
		Long: "Run jobs on this machine: pull one only when its own slots and a look at the GPUs say there is room.\n" +
			"Ctrl-C drains (what runs is finished), Ctrl-C again stops what runs; SIGTERM leaves it to the next worker.",
		Example: "  worker\n  worker --gpus 0-3 --slots 2 --label rack=a\n  worker --gpu-source sim:4x24Gi     # no GPU needed\n" +
			"  worker check",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownVerb(cmd, args[0])
			}
			return nil
		},
	}
}

func build(cmd *cobra.Command, g *cli.Globals) {
	cmd.Flags().SortFlags = false
	settings := Bind(cmd)
	printOnly := cmd.Flags().Bool("config-print", false, "show every setting and where it came from, and end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, from, err := settings.Load(g.Env())
		if err != nil {
			return err
		}
		if *printOnly {
			return printConfig(g, from)
		}
		return run(cmd.Context(), g, w)
	}
	cmd.AddCommand(newCheck(g), newInstall(g), newUninstall(g))
}

// printConfig shows the worker's settings, then those of the connection.
func printConfig(g *cli.Globals, from config.Settings) error {
	_, client, err := g.Client()
	if err != nil {
		return err
	}
	return append(from, client...).Print(g.Out())
}

// Logger is the log of a daemon: on a terminal what an operator looks at, JSON for a service manager.
func Logger(g *cli.Globals) *slog.Logger {
	level := slog.LevelInfo
	switch {
	case g.Verbose:
		level = slog.LevelDebug
	case g.Quiet:
		level = slog.LevelWarn
	}
	return logs.New(logs.Options{Out: g.Env().Stderr, Level: level, NoColor: !g.Console().Color})
}

// CheckRoot refuses, before anything is opened, a worker that is root and was not told that jobs may be.
func CheckRoot(w config.Worker) error {
	if w.Users != "" || w.AllowRoot || !worker.MayChangeUsers() {
		return nil
	}
	return exit.With(exit.Usage, worker.ErrRoot)
}

// run is the daemon: connect, work until a signal, leave in order.
func run(ctx context.Context, g *cli.Globals, w config.Worker) error {
	if err := CheckRoot(w); err != nil {
		return err
	}
	log := Logger(g)
	signals, stop := Signals(ctx, g.Env(), g.Env().Stderr)
	defer stop()
	to, _, err := g.Client()
	if err != nil {
		return err
	}
	to.Logger, to.Name = log, "worker "+w.Name
	nc, err := queue.Connect(signals.Claim, to)
	if err != nil {
		return cli.Broker(err)
	}
	defer nc.Close()
	q, err := queue.Open(signals.Claim, nc, QueueOptions(w, g.Env(), log))
	if err != nil {
		return cli.Broker(err)
	}
	defer q.Close()
	return Serve(signals, g, w, q, nc.ConnectedUrlRedacted(), nil, log)
}

// Serve runs a worker on a queue until the contexts end it. server is the broker's address for people; beside are pages
// of the same process that its metrics address shows too.
func Serve(signals Contexts, g *cli.Globals, w config.Worker, q *queue.Queue, server string, beside metrics.Pages, log *slog.Logger) error {
	cfg, err := Config(w, g.Env(), log)
	if err != nil {
		return err
	}
	cfg.Queue = q
	m := newMeasured(q, g.Env().Now, log)
	cfg.Runs = m.registry.Runs
	var house *worker.Worker
	cfg.OnReady = func(r worker.Ready) { m.house.Store(house); ready(g, log, r, server) }
	if house, err = worker.New(cfg); err != nil {
		return exit.With(exit.Usage, err)
	}
	end, err := m.serve(w.Metrics, beside, log)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	defer end()
	err = house.Run(signals.Claim, signals.Work)
	if signals.Claim.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, worker.ErrDetach)) {
		return nil // it ended as it was asked to
	}
	return err
}

// ready says that the worker takes jobs: to a person with the GPUs, to a log in one line.
func ready(g *cli.Globals, log *slog.Logger, r worker.Ready, server string) {
	if term := g.Console(); term.TTY {
		if err := firstLines(g.Env().Stderr, term, r, server); err != nil {
			log.Warn("first_lines", "err", err)
		}
		return
	}
	log.Info("ready", "machine", r.Machine, "server", screen.Safe(server), "gpus", len(r.Status.GPUs), "source", r.Source,
		"isolation", r.Isolation, "adopted", r.Adopted)
}
