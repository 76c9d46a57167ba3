package operator

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/follow"
	"github.com/berthq/berth/queue"
)

type logFlags struct {
	follow, timestamps, onlyOut, onlyErr bool
	attempt                              int
}

func newLogs(g *cli.Globals) *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "print a job's output, its bytes unchanged",
		Long: "Print what a job wrote, its stdout to stdout and its stderr to stderr. With -f it waits for the start, goes on until\n" +
			"the job has ended and exits as the job does.",
		Example: "  berth logs 1842 -f\n  berth logs 1842.17 --timestamps\n  berth logs @last --stderr",
		Args:    cli.Takes(1, 1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.onlyOut && f.onlyErr {
				return exit.Errorf(exit.Usage, "--stdout and --stderr together are all there is").Hinted("leave both away")
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return logs(ctx, g, q, args[0], f) })
		},
	}
	s := cmd.Flags()
	s.BoolVarP(&f.follow, "follow", "f", false, "wait for the start, and until the end")
	s.BoolVar(&f.timestamps, "timestamps", false, "begin each line with when it was written")
	s.BoolVar(&f.onlyOut, "stdout", false, "only its stdout")
	s.BoolVar(&f.onlyErr, "stderr", false, "only its stderr, to stdout")
	s.IntVar(&f.attempt, "attempt", 0, "only this attempt (default all)")
	s.SortFlags = false
	return cmd
}

func logs(ctx context.Context, g *cli.Globals, q *queue.Queue, word string, f logFlags) error {
	found, err := refs(ctx, g, q, []string{word})
	if err != nil {
		return err
	}
	v, err := q.Show(ctx, found[0])
	if err != nil {
		return cli.Broker(err)
	}
	out := &follow.Output{Stdout: g.Out(), Stderr: g.Env().Stderr, Timestamps: f.timestamps, Tasks: v.Tasks != nil, Bars: g.Screen().TTY}
	switch {
	case f.onlyOut:
		out.Stderr = nil
	case f.onlyErr:
		out.Stdout, out.Stderr = nil, g.Out()
	}
	if f.follow {
		return follow.Wait(ctx, g, q, found, follow.Options{Output: out, Report: true})
	}
	err = follow.Copy(ctx, q, found, queue.LogOptions{Attempt: f.attempt}, out)
	if err != nil && !errors.Is(err, context.Canceled) {
		return cli.Broker(err)
	}
	if v.StartedAt == nil && !v.State.Final() && v.Tasks == nil {
		g.Say("berth: job %s has not started (%s); -f waits for it", v.Ref, v.State)
	}
	return err
}
