package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/follow"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

func newRetry(g *cli.Globals) *cobra.Command {
	var failed, wait bool
	cmd := &cobra.Command{
		Use:   "retry ID...",
		Short: "run jobs that have ended once more, as their next round",
		Example: "  berth retry 1842              # a job, or every task of a group\n" +
			"  berth retry 1842 --failed     # the tasks that did not succeed\n  berth retry 1842.17 --wait",
		Args: cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				found, err := refs(ctx, g, q, args)
				if err != nil {
					return err
				}
				for _, ref := range found {
					if err := retryOne(ctx, g, q, ref, failed); err != nil {
						return err
					}
				}
				if !wait {
					return nil
				}
				return follow.Wait(ctx, g, q, found, follow.Options{JSON: !g.Output.ForPeople()})
			})
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "of a group only the tasks that did not succeed")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end and exit as the job does")
	return cmd
}

func retryOne(ctx context.Context, g *cli.Globals, q *queue.Queue, ref queue.Ref, failed bool) error {
	err := q.Retry(ctx, ref, cli.Me(g.Env()).User, failed)
	switch {
	case err == nil:
		return printState(g, ref, "queued")
	case errors.Is(err, queue.ErrNotFinal), errors.Is(err, queue.ErrNothingFailed), errors.Is(err, queue.ErrBadRequest):
		return exit.With(exit.Failed, err)
	}
	return cli.Broker(err)
}

// newDead is the verbs for jobs that the system could not run.
func newDead(g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "jobs the system could not run: list, retry or drop them",
		Long: "A job is dead when machines or GPUs have failed under it as often as they may (system_attempts), or when its message\n" +
			"is no job. It stays on this list until it is retried or dropped.",
	}
	cli.Verbs(cmd)
	cmd.AddCommand(newDeadList(g), newDeadShow(g), newDeadRetry(g), newDeadDrop(g))
	return cmd
}

func newDeadList(g *cli.Globals) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "list dead jobs, the oldest first",
		Example: "  berth dead ls\n  berth dead ls -o jsonl",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				all, err := q.Dead(ctx, project)
				if err != nil {
					return cli.Broker(err)
				}
				return cli.Print(g, deadTable(g), all)
			})
		},
	}
	cmd.Flags().StringVarP(&project, "project", "p", "", "only this project")
	return cmd
}

func deadTable(g *cli.Globals) table.View[queue.DeadLetter] {
	now := g.Env().Now()
	text := func(s string) table.Cell { return table.Text(dash(s)) }
	return table.View[queue.DeadLetter]{
		Name:  func(d queue.DeadLetter) string { return d.Job },
		Empty: "no dead jobs",
		Columns: []table.Column[queue.DeadLetter]{
			{Title: "ID", Field: "job", Cell: func(d queue.DeadLetter) table.Cell { return table.Text(d.Job) }},
			{Title: "NAME", Field: "name", Shrink: 10, Cell: func(d queue.DeadLetter) table.Cell { return text(d.Name) },
				Raw: func(d queue.DeadLetter) string { return d.Name }},
			{Title: "PROJECT", Field: "project", Drop: 3, Cell: func(d queue.DeadLetter) table.Cell { return text(d.Project) },
				Raw: func(d queue.DeadLetter) string { return d.Project }},
			{Title: "USER", Field: "user", Drop: 4, Cell: func(d queue.DeadLetter) table.Cell { return text(d.User) },
				Raw: func(d queue.DeadLetter) string { return d.User }},
			{Title: "DIED", Field: "at", Drop: 2, Cell: func(d queue.DeadLetter) table.Cell {
				return table.Cell{Text: screen.Ago(d.At, now), Color: screen.Dim}
			}, Raw: func(d queue.DeadLetter) string { return stamp(&d.At) }},
			{Title: "LAST ON", Field: "machine", Drop: 5, Cell: func(d queue.DeadLetter) table.Cell { return text(d.Machine) },
				Raw: func(d queue.DeadLetter) string { return d.Machine }},
			{Title: "TRIES", Field: "attempts", Right: true, Cell: func(d queue.DeadLetter) table.Cell { return table.Text(fmt.Sprint(d.Attempts)) }},
			{Title: "WHY", Field: "reason", Drop: 1, Shrink: 12, Cell: func(d queue.DeadLetter) table.Cell {
				if d.Evidence != "" {
					return table.Text(d.Reason + ": " + d.Evidence)
				}
				return table.Text(d.Reason)
			}},
		},
	}
}

func newDeadShow(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID...",
		Short:   "show everything about dead jobs",
		Example: "  berth dead show 1842",
		Args:    cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return show(ctx, g, q, args) })
		},
	}
}

// letters are the dead letters that the words mean; all of them with --all.
func letters(ctx context.Context, g *cli.Globals, q *queue.Queue, args []string, all bool) ([]queue.Ref, error) {
	if !all {
		if len(args) == 0 {
			return nil, exit.Errorf(exit.Usage, "which ones?").Hinted("name them, or say --all")
		}
		return refs(ctx, g, q, args)
	}
	if len(args) > 0 {
		return nil, exit.Errorf(exit.Usage, "--all means every dead job, so name none")
	}
	list, err := q.Dead(ctx, "")
	if err != nil {
		return nil, cli.Broker(err)
	}
	found := make([]queue.Ref, len(list))
	for i, d := range list {
		found[i] = d.Ref()
	}
	return found, nil
}

func newDeadRetry(g *cli.Globals) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "retry ID...",
		Short:   "run dead jobs once more",
		Example: "  berth dead retry 1842 1843",
		Args:    cli.Takes(0, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				found, err := letters(ctx, g, q, args, all)
				if err != nil {
					return err
				}
				for _, ref := range found {
					if err := retryOne(ctx, g, q, ref, false); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every dead job")
	return cmd
}

func newDeadDrop(g *cli.Globals) *cobra.Command {
	var all bool
	var reason string
	cmd := &cobra.Command{
		Use:     "drop ID...",
		Short:   "take dead jobs off the list: they have been dealt with",
		Example: "  berth dead drop 1842",
		Args:    cli.Takes(0, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				found, err := letters(ctx, g, q, args, all)
				if err != nil {
					return err
				}
				for _, ref := range found {
					err := q.DropDead(ctx, ref, cli.Me(g.Env()).User, reason)
					if errors.Is(err, queue.ErrNoLetter) {
						return exit.With(exit.Failed, err)
					}
					if err != nil {
						return cli.Broker(err)
					}
					if err := printState(g, ref, "dropped"); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every dead job")
	cmd.Flags().StringVar(&reason, "reason", "", "kept with the event")
	return cmd
}
