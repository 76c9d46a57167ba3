package operator

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newHold(g *cli.Globals) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "hold ID...",
		Short: "keep waiting jobs from starting until they are released",
		Long: "Keep waiting jobs from starting until they are released. A job that runs is not touched. Of a group, the tasks that run\n" +
			"end as they would; no other one starts.",
		Example: "  berth hold 1842 --reason 'the data is not there yet'\n  berth release 1842",
		Args:    cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachJob(g, cmd, args, func(ctx context.Context, q *queue.Queue, ref queue.Ref) (string, error) {
				return string(job.Held), q.Hold(ctx, ref, cli.Me(g.Env()).User, reason)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "kept with the job")
	return cmd
}

func newRelease(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "release ID...",
		Short:   "let held jobs go on",
		Example: "  berth release 1842",
		Args:    cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachJob(g, cmd, args, func(ctx context.Context, q *queue.Queue, ref queue.Ref) (string, error) {
				return "released", q.Release(ctx, ref, cli.Me(g.Env()).User)
			})
		},
	}
}

func newSet(g *cli.Globals) *cobra.Command {
	var priority int
	var limit string
	cmd := &cobra.Command{
		Use:   "set ID...",
		Short: "change the priority or the time limit of jobs that wait or run",
		Long: "Change jobs that have not ended. A new priority moves a waiting job at once; for a running one it counts when it is\n" +
			"queued again. A new time limit is counted from the start of the run and reaches a running job too: one that has run\n" +
			"longer is stopped. Of a group, a priority counts for tasks that are not on a lane yet, a time limit for all of them.",
		Example: "  berth set 1842 --priority 80\n  berth set 1842 --time-limit 36h\n  berth set @last -t none",
		Args:    cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var c queue.Change
			if cmd.Flags().Changed("priority") {
				c.Priority = &priority
			}
			if cmd.Flags().Changed("time-limit") {
				d, err := limitOf(limit)
				if err != nil {
					return err
				}
				c.TimeLimit = &d
			}
			if c == (queue.Change{}) {
				return exit.Errorf(exit.Usage, "set what?").Hinted("berth set ID --priority 80, or --time-limit 36h")
			}
			return eachJob(g, cmd, args, func(ctx context.Context, q *queue.Queue, ref queue.Ref) (string, error) {
				state, err := q.Set(ctx, ref, cli.Me(g.Env()).User, c)
				return "set, it is " + string(state), err
			})
		},
	}
	cmd.Flags().IntVarP(&priority, "priority", "P", 0, "0 to 100, more is sooner")
	cmd.Flags().StringVarP(&limit, "time-limit", "t", "", "end the run after 12h, 90s, 1-02:00:00; none lifts it")
	return cmd
}

func limitOf(text string) (job.Duration, error) {
	if strings.EqualFold(text, "none") {
		return 0, nil
	}
	d, err := job.ParseDuration(text)
	if err == nil && d == 0 {
		err = errors.New("want a span such as 12h, or none")
	}
	if err != nil {
		return 0, exit.Errorf(exit.Usage, "--time-limit %q: %w", text, err)
	}
	return d, nil
}

// eachJob does one verb to each job that is meant and says what came of it.
func eachJob(g *cli.Globals, cmd *cobra.Command, words []string, do func(context.Context, *queue.Queue, queue.Ref) (string, error)) error {
	return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
		found, err := refs(ctx, g, q, words)
		if err != nil {
			return err
		}
		for _, ref := range found {
			what, err := do(ctx, q, ref)
			if err != nil {
				return deedError(err)
			}
			if err := printState(g, ref, what); err != nil {
				return err
			}
		}
		return nil
	})
}

// deedError tells a refused deed from a broker that is away.
func deedError(err error) error {
	for _, refused := range []error{queue.ErrFinal, queue.ErrRunning, queue.ErrBadRequest, queue.ErrNotAllowed} {
		if errors.Is(err, refused) {
			return exit.With(exit.Failed, err)
		}
	}
	return cli.Broker(err)
}
