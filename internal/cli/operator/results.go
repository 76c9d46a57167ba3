package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/screen"
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
	view := entryTable(resultTable(g.Env().Now()))
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

func resultTable(now time.Time) table.View[job.Result] {
	return table.View[job.Result]{
		Name:  report.Number,
		Empty: "no results",
		Columns: []table.Column[job.Result]{
			{Title: "ID", Field: "number", Width: 6, Cell: func(r job.Result) table.Cell { return table.Text(report.Number(r)) }},
			{Title: "NAME", Field: "name", Shrink: 10, Width: 20, Cell: func(r job.Result) table.Cell { return table.Text(dash(r.Name)) },
				Raw: func(r job.Result) string { return r.Name }},
			{Title: "STATE", Field: "state", Width: 9, Cell: func(r job.Result) table.Cell {
				return table.Cell{Text: string(r.State), Color: report.StateColor(r.State)}
			}},
			{Title: "EXIT", Field: "exit", Right: true, Width: 4, Cell: func(r job.Result) table.Cell { return table.Text(exitText(r.Exit)) }},
			{Title: "PROJECT", Field: "project", Wide: true, Width: 10, Cell: func(r job.Result) table.Cell { return table.Text(r.Project) }},
			{Title: "USER", Field: "user", Drop: 3, Width: 10, Cell: func(r job.Result) table.Cell { return table.Text(r.User) }},
			{Title: "MACHINE", Field: "machine", Drop: 2, Width: 12, Cell: func(r job.Result) table.Cell { return table.Text(dash(r.Machine)) },
				Raw: func(r job.Result) string { return r.Machine }},
			{Title: "RAN", Field: "run_seconds", Right: true, Width: 6,
				Cell: func(r job.Result) table.Cell { return table.Text(ranFor(r)) },
				Raw:  func(r job.Result) string { return strconv.FormatFloat(r.RunSeconds, 'f', -1, 64) }},
			{Title: "WAITED", Field: "queued_seconds", Right: true, Drop: 4, Width: 6,
				Cell: func(r job.Result) table.Cell { return table.Text(screen.Span(screen.Seconds(r.QueuedSeconds))) },
				Raw:  func(r job.Result) string { return strconv.FormatFloat(r.QueuedSeconds, 'f', -1, 64) }},
			{Title: "ENDED", Field: "ended_at", Drop: 5, Width: 9, Cell: func(r job.Result) table.Cell {
				if r.EndedAt == nil {
					return table.Text("-")
				}
				return table.Cell{Text: screen.Ago(*r.EndedAt, now), Color: screen.Dim}
			}, Raw: func(r job.Result) string { return stamp(r.EndedAt) }},
			{Title: "WHY", Field: "reason", Drop: 1, Shrink: 12, Cell: func(r job.Result) table.Cell { return table.Text(r.Reason) }},
		},
	}
}

func ranFor(r job.Result) string {
	if r.StartedAt == nil {
		return "-"
	}
	return screen.Span(screen.Seconds(r.RunSeconds))
}

func exitText(e *job.Exit) string {
	switch {
	case e == nil:
		return "-"
	case e.Signal != "":
		return e.Signal
	}
	return fmt.Sprint(e.Code)
}
