package operator

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newResults(g *cli.Globals) *cobra.Command {
	var o queue.ResultOptions
	var from replay
	cmd := &cobra.Command{
		Use:   "results [ID]",
		Short: "print what jobs came to, one result each",
		Example: "  berth results --since 1h\n  berth results -f -o jsonl | jq .state     # as they come\n" +
			"  berth results 1842                        # of a job, or of every task of a group\n" +
			"  berth results -f --from-seq 8012 -o jsonl # go on after the one whose seq was 8011",
		Args: cli.Takes(0, 1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Since, err = from.begin(cmd, g.Env().Now()); err != nil {
				return err
			}
			o.Follow, o.New, o.From = from.follow, from.only, from.from
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return results(ctx, g, q, args, o) })
		},
	}
	from.bind(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.Project, "project", "p", "", "only this project")
	f.SortFlags = false
	return cmd
}

func results(ctx context.Context, g *cli.Globals, q *queue.Queue, args []string, o queue.ResultOptions) error {
	if len(args) > 0 {
		found, err := refs(ctx, g, q, args)
		if err != nil {
			return err
		}
		o.Ref = found[0]
		if isGroup(ctx, q, o.Ref) && o == (queue.ResultOptions{Ref: o.Ref, Project: o.Project}) {
			return groupTable(ctx, g, q, o.Ref.Number)
		}
	}
	view := entryTable(report.Results(g.Env().Now()))
	if !o.Follow || g.Output == table.JSON {
		return allResults(ctx, g, q, o, view)
	}
	stream := view.Stream(g.Out(), g.Screen(), g.Output)
	for e, err := range q.ResultEntries(ctx, o) {
		if err != nil {
			return cli.Broker(err)
		}
		if err := stream.Row(entry[job.Result]{e}); err != nil {
			return err
		}
	}
	if err := stream.End(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func isGroup(ctx context.Context, q *queue.Queue, ref queue.Ref) bool {
	j, err := q.Job(ctx, ref.Number)
	return err == nil && j.IsGroup() && !ref.Task
}

func allResults(ctx context.Context, g *cli.Globals, q *queue.Queue, o queue.ResultOptions, view table.View[entry[job.Result]]) error {
	var all []entry[job.Result]
	for e, err := range q.ResultEntries(ctx, o) {
		if err != nil && !errors.Is(err, context.Canceled) {
			return cli.Broker(err)
		}
		if err != nil {
			break
		}
		all = append(all, entry[job.Result]{e})
	}
	return cli.Print(g, view, all)
}
