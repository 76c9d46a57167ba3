package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/follow"
	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newReport(g *cli.Globals) *cobra.Command {
	var days float64
	var by string
	cmd := &cobra.Command{
		Use:   "report ID... | report --days N [--by user|project|machine]",
		Short: "say what jobs made of their GPUs: each, or all of some days",
		Long: "With an ID: the efficiency report that --follow ends with. With --days: GPU hours, efficiency and energy of the jobs\n" +
			"that ended in that time, by user, project or machine.",
		Example: "  berth report @last\n  berth report --days 7 --by user\n  berth report --days 30 --by project -o csv > usage.csv",
		RunE: func(cmd *cobra.Command, args []string) error {
			overall := cmd.Flags().Changed("days") || cmd.Flags().Changed("by")
			switch {
			case len(args) > 0 && overall:
				return exit.Errorf(exit.Usage, "either jobs or --days, not both")
			case len(args) == 0 && !overall:
				return exit.Errorf(exit.Usage, "report on what?").Hinted("berth report ID, or berth report --days 7 --by user")
			case by != "user" && by != "project" && by != "machine":
				return exit.Errorf(exit.Usage, "--by %q: want user, project or machine", by)
			case days <= 0:
				return exit.Errorf(exit.Usage, "--days %v: want more than 0", days)
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				if len(args) > 0 {
					return reportJobs(ctx, g, q, args)
				}
				since := g.Env().Now().Add(-time.Duration(days * 24 * float64(time.Hour)))
				return reportUsage(ctx, g, q, since, by)
			})
		},
	}
	f := cmd.Flags()
	f.Float64Var(&days, "days", 7, "of the last so many days")
	f.StringVar(&by, "by", "user", "summed up by user, project or machine")
	f.SortFlags = false
	return cmd
}

// reportJobs writes the efficiency report of each job that has ended.
func reportJobs(ctx context.Context, g *cli.Globals, q *queue.Queue, words []string) error {
	found, err := refs(ctx, g, q, words)
	if err != nil {
		return err
	}
	var results []job.Result
	for _, ref := range found {
		v, err := q.Show(ctx, ref)
		if err != nil {
			return cli.Broker(err)
		}
		if v.Record == nil || v.Record.Result == nil {
			return exit.Errorf(exit.Failed, "job %s is %s: its report is there when it has ended", ref, v.State).
				Hinted("berth wait %s", ref)
		}
		r, err := q.Result(ctx, v.Project, ref)
		if err != nil {
			return cli.Broker(err)
		}
		results = append(results, r)
	}
	if !g.Output.ForPeople() {
		return cli.Print(g, report.Results(g.Env().Now()), results)
	}
	for i, r := range results {
		if i > 0 {
			fmt.Fprintln(g.Out())
		}
		if err := report.Write(g.Out(), g.Screen(), follow.Input(ctx, q, r)); err != nil {
			return err
		}
	}
	return nil
}

func reportUsage(ctx context.Context, g *cli.Globals, q *queue.Queue, since time.Time, by string) error {
	var all []job.Result
	for r, err := range q.Results(ctx, queue.ResultOptions{Since: since}) {
		if err != nil {
			return cli.Broker(err)
		}
		all = append(all, r)
	}
	return cli.Print(g, usageTable(by), usageBy(all, by))
}

// usageJSON is usage as programs see it.
type usageJSON struct {
	Version int `json:"version"`
	usage
}

func usageTable(by string) table.View[usage] {
	titles := map[string]string{"user": "USER", "project": "PROJECT", "machine": "MACHINE"}
	return table.View[usage]{
		Name:  func(u usage) string { return u.Who },
		Value: func(u usage) any { return usageJSON{1, u} },
		Empty: "no job has ended in that time",
		Columns: []table.Column[usage]{
			{Title: titles[by], Field: by, Shrink: 8, Cell: func(u usage) table.Cell { return table.Text(u.Who) }},
			{Title: "JOBS", Field: "jobs", Right: true, Cell: func(u usage) table.Cell { return table.Text(strconv.Itoa(u.Jobs)) }},
			{Title: "OK", Field: "succeeded", Right: true, Cell: func(u usage) table.Cell { return table.Text(strconv.Itoa(u.Succeeded)) }},
			{Title: "GPU HOURS", Field: "gpu_hours", Right: true, Cell: func(u usage) table.Cell { return table.Text(fmt.Sprintf("%.1f", u.GPUHours)) },
				Raw: func(u usage) string { return strconv.FormatFloat(u.GPUHours, 'f', -1, 64) }},
			{Title: "BUSY", Field: "efficiency_percent", Right: true, Cell: func(u usage) table.Cell { return table.Text(gauge(u.EfficiencyPercent, "%.0f %%")) },
				Raw: func(u usage) string { return float(u.EfficiencyPercent) }},
			{Title: "ENERGY", Field: "energy_wh", Right: true, Cell: func(u usage) table.Cell { return table.Text(energyText(u.EnergyWh)) },
				Raw: func(u usage) string { return float(u.EnergyWh) }},
			{Title: "WAITED", Field: "waited_seconds", Right: true, Cell: func(u usage) table.Cell {
				return table.Text(screen.Span(screen.Seconds(u.WaitedSeconds)))
			}, Raw: func(u usage) string { return strconv.FormatFloat(u.WaitedSeconds, 'f', -1, 64) }},
		},
	}
}

func energyText(wh *float64) string {
	if wh == nil {
		return "-"
	}
	return screen.Energy(*wh * 3600)
}
