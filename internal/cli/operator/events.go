package operator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

func newEvents(g *cli.Globals) *cobra.Command {
	var o queue.EventOptions
	var from replay
	cmd := &cobra.Command{
		Use:   "events",
		Short: "print who did what, and when",
		Long: "Print the audit log: cancels, holds, releases, changes, retries, leases, drains, quarantines, projects, and what\n" +
			"workers did to GPUs by themselves. It is kept for 90 days.",
		Example: "  berth events --since 1d\n  berth events -f --kind quarantine\n  berth events -o jsonl | jq 'select(.by == \"ada\")'\n" +
			"  berth events -f --from-seq 8012 -o jsonl  # go on after the one whose seq was 8011",
		Args: cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Since, err = from.begin(cmd, g.Env().Now()); err != nil {
				return err
			}
			o.Follow, o.New, o.From = from.follow, from.only, from.from
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return events(ctx, g, q, o) })
		},
	}
	from.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Kind, "kind", "", "only one kind: cancel, drain, quarantine, lease, ...")
	f.StringVarP(&o.Project, "project", "p", "", "only this project; _ is none: machines and the fleet")
	f.SortFlags = false
	return cmd
}

// events prints each as it comes: a log has no table to fit.
func events(ctx context.Context, g *cli.Globals, q *queue.Queue, o queue.EventOptions) error {
	view := entryTable(eventTable(g.Env().Now))
	if g.Output == table.JSON && !o.Follow {
		all := []any{}
		for e, err := range q.EventEntries(ctx, o) {
			if err != nil {
				return cli.Broker(err)
			}
			all = append(all, view.Value(entry[queue.Event]{e}))
		}
		return table.WriteJSON(g.Out(), all)
	}
	stream := view.Stream(g.Out(), g.Screen(), g.Output)
	for e, err := range q.EventEntries(ctx, o) {
		if err != nil {
			return cli.Broker(err)
		}
		if err := stream.Row(entry[queue.Event]{e}); err != nil {
			return err
		}
	}
	if err := stream.End(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func eventTable(now func() time.Time) table.View[queue.Event] {
	return table.View[queue.Event]{
		Name:  eventSubject,
		Value: eventValue,
		Empty: "nothing has happened yet",
		Columns: []table.Column[queue.Event]{
			{Title: "WHEN", Field: "at", Width: 10, Cell: func(e queue.Event) table.Cell {
				return table.Cell{Text: screen.Ago(e.At, now()), Color: screen.Dim}
			}, Raw: func(e queue.Event) string { return stamp(&e.At) }},
			{Title: "WHO", Field: "by", Width: 10, Shrink: 6, Cell: func(e queue.Event) table.Cell { return table.Text(e.By) }},
			{Title: "DID", Field: "kind", Width: 11, Cell: func(e queue.Event) table.Cell { return table.Text(e.Kind) }},
			{Title: "TO", Field: "to", Width: 16, Shrink: 8, Cell: func(e queue.Event) table.Cell { return table.Text(eventTarget(e)) }},
			{Title: "PROJECT", Field: "project", Wide: true, Width: 12, Cell: func(e queue.Event) table.Cell { return table.Text(e.Project) }},
			{Title: "WHY", Field: "text", Shrink: 12, Cell: func(e queue.Event) table.Cell { return table.Text(eventText(e)) },
				Raw: func(e queue.Event) string { return e.Text }},
		},
	}
}

func eventValue(e queue.Event) any {
	return struct {
		Version int `json:"version"`
		queue.Event
	}{1, e}
}

// eventSubject is the id of what it was done to.
func eventSubject(e queue.Event) string { return cmp.Or(e.Job, e.Facts["gpu"], e.Machine, e.Project) }

// eventTarget is what it was done to: a job, a GPU of a machine, a machine, or the project.
func eventTarget(e queue.Event) string {
	switch index := e.Facts["index"]; {
	case e.Job != "":
		return "job " + e.Job
	case e.Machine != "" && index != "":
		return e.Machine + " GPU " + index
	case e.Machine != "":
		return e.Machine
	}
	return "project " + e.Project
}

func eventText(e queue.Event) string {
	var parts []string
	if e.Text != "" {
		parts = append(parts, e.Text)
	}
	for _, k := range slices.Sorted(maps.Keys(e.Facts)) {
		if k != "index" && k != "gpu" {
			parts = append(parts, k+"="+e.Facts[k])
		}
	}
	return strings.Join(parts, " ")
}
