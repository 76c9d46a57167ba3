package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// drainWish is what was asked of a drain.
type drainWish struct {
	reason  string
	timeout job.Duration
	wait    bool
}

func newDrain(g *cli.Globals) *cobra.Command {
	var wish drainWish
	var timeout string
	cmd := &cobra.Command{
		Use:   "drain MACHINE...",
		Short: "let machines finish what they run and take no more",
		Long: "A drained machine finishes what it runs and takes no more, until berth undrain. With --timeout it stops what still\n" +
			"runs by then: each job gets its checkpoint signal and its stop signal, and goes back to the queue free of charge.",
		Example: "  berth drain titan --reason 'new driver'\n  berth drain titan --timeout 30m --wait && ssh titan reboot",
		Args:    cli.Takes(1, -1, "a MACHINE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout != "" {
				var err error
				if wish.timeout, err = job.ParseDuration(timeout); err != nil {
					return exit.Errorf(exit.Usage, "--timeout: %w", err)
				}
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return drain(ctx, g, q, args, wish) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&wish.reason, "reason", "", "shown with the machine")
	f.StringVar(&timeout, "timeout", "", "stop what still runs after `TIME` (default: the machine's --drain-timeout, or wait)")
	f.BoolVar(&wish.wait, "wait", false, "wait until nothing runs there")
	f.SortFlags = false
	return cmd
}

func drain(ctx context.Context, g *cli.Globals, q *queue.Queue, machines []string, wish drainWish) error {
	for _, m := range machines {
		if err := q.Drain(ctx, m, cli.Me(g.Env()).User, wish.reason, time.Duration(wish.timeout)); err != nil {
			return exit.With(exit.Failed, err)
		}
		g.Say("%s drains; berth undrain %s ends that", m, m)
	}
	if !wish.wait {
		return nil
	}
	return awaitEmpty(ctx, g, q, machines)
}

// awaitEmpty waits until none of the machines runs anything, or is there any more.
func awaitEmpty(ctx context.Context, g *cli.Globals, q *queue.Queue, machines []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	line := screen.NewLine(g.Env().Stderr, g.Console())
	defer line.Close()
	left := map[string]int{} // by key; how many runs
	for _, m := range machines {
		left[queue.MachineKey(m)] = -1 // not heard of yet
	}
	empty := false
	tell := func() {
		text, busy := drainText(machines, left)
		if !g.Quiet {
			line.Show(text)
		}
		if !busy {
			empty = true
			cancel()
		}
	}
	err := q.WatchMachines(ctx, func(m queue.Machine) {
		if key := queue.MachineKey(m.Name); slices.Contains(machines, m.Name) && m.Draining {
			left[key] = len(m.Running)
			tell()
		}
	}, func(key string) {
		if _, ours := left[key]; ours {
			left[key] = 0
			tell()
		}
	})
	if err != nil {
		return cli.Broker(err)
	}
	if !empty {
		return context.Cause(ctx)
	}
	return nil
}

// drainText says "titan: 3 runs left, atlas: empty", and whether anything is left.
func drainText(machines []string, left map[string]int) (text string, busy bool) {
	parts := make([]string, len(machines))
	for i, m := range machines {
		n := left[queue.MachineKey(m)]
		busy = busy || n != 0
		switch {
		case n < 0:
			parts[i] = m + ": waiting for its word"
		case n == 0:
			parts[i] = m + ": empty"
		default:
			parts[i] = fmt.Sprintf("%s: %s left", m, screen.Plural(n, "run"))
		}
	}
	return strings.Join(parts, ", "), busy
}
