package operator

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/follow"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newCancel(g *cli.Globals) *cobra.Command {
	var reason string
	var noWait bool
	cmd := &cobra.Command{
		Use:     "cancel ID...",
		Short:   "end jobs, waiting or running, and wait for the proof",
		Example: "  berth cancel 1842\n  berth cancel @last --reason 'wrong data'",
		Args:    cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				found, err := refs(ctx, g, q, args)
				if err != nil {
					return err
				}
				for _, ref := range found {
					if err := cancelOne(ctx, g, q, ref, reason, noWait); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "kept with the job")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "ask, and do not wait until it has ended")
	return cmd
}

func cancelOne(ctx context.Context, g *cli.Globals, q *queue.Queue, ref queue.Ref, reason string, noWait bool) error {
	state, err := q.Cancel(ctx, ref, cli.Me(g.Env()).User, reason)
	if err != nil {
		return cli.Broker(err)
	}
	if state == job.Running && noWait {
		return printState(g, ref, "asked to end")
	}
	r, err := q.WaitResult(ctx, ref)
	if err != nil {
		return cli.Broker(err)
	}
	return printState(g, ref, string(r.State))
}

func printState(g *cli.Globals, ref queue.Ref, what string) error {
	if g.Output.ForPeople() {
		if !g.Quiet {
			fmt.Fprintf(g.Out(), "job %s %s\n", ref, what)
		}
		return nil
	}
	return cli.Print(g, stateView, []deed{{Version: 1, Job: ref.String(), State: what}})
}

// deed is what a verb did, for programs.
type deed struct {
	Version int    `json:"version"`
	Job     string `json:"job"`
	State   string `json:"state"`
}

var stateView = table.View[deed]{
	Name: func(d deed) string { return d.Job },
	Columns: []table.Column[deed]{
		{Field: "job", Cell: func(d deed) table.Cell { return table.Text(d.Job) }},
		{Field: "state", Cell: func(d deed) table.Cell { return table.Text(d.State) }},
	},
}

func newWait(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "wait ID...",
		Short:   "wait for jobs and exit as they do",
		Example: "  berth wait 1842 && echo done",
		Args:    cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				found, err := refs(ctx, g, q, args)
				if err != nil {
					return err
				}
				return follow.Wait(ctx, g, q, found, follow.Options{JSON: !g.Output.ForPeople()})
			})
		},
	}
}

func newUndrain(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "undrain MACHINE...",
		Short:   "let drained machines take jobs again",
		Example: "  berth undrain titan atlas",
		Args:    cli.Takes(1, -1, "a MACHINE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				for _, m := range args {
					if err := q.Undrain(ctx, m, cli.Me(g.Env()).User); err != nil {
						return exit.With(exit.Failed, err)
					}
					g.Say("%s takes jobs again", m)
				}
				return nil
			})
		},
	}
}
