package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// newProject is the verbs for what projects may use.
func newProject(g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "project",
		Short: "what projects may use: quotas, weights, default time limits",
		Long: "A project that nothing was set for has no limit and weight 1. Whoever may write to the broker's project bucket may\n" +
			"change settings; workers know of a change within moments.",
	}
	cli.Verbs(cmd)
	cmd.AddCommand(newProjectSet(g), newProjectList(g), newProjectShow(g))
	return cmd
}

const none = "none" // takes a setting away

func newProjectSet(g *cli.Globals) *cobra.Command {
	var gpus, queued, weight, limit string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "set what a project may use",
		Example: "  berth project set nlp --max-gpus 16 --max-queued 5000 --weight 2\n" +
			"  berth project set nlp --max-gpus none --default-time-limit 12h",
		Args: cli.Takes(1, 1, "a project's NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			edit, err := projectEdit(cmd, gpus, queued, weight, limit)
			if err != nil {
				return err
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				if _, err := q.SetProject(ctx, args[0], cli.Me(g.Env()).User, edit); errors.Is(err, queue.ErrBadRequest) {
					return exit.With(exit.Usage, err)
				} else if err != nil {
					return cli.Broker(err)
				}
				return showProjects(ctx, g, q, args)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&gpus, "max-gpus", "", "`GPUS` that its runs may hold together, or none")
	f.StringVar(&queued, "max-queued", "", "`JOBS` and tasks that may wait, or none")
	f.StringVar(&weight, "weight", "", "its `SHARE` of the fleet beside others, which have 1")
	f.StringVar(&limit, "default-time-limit", "", "`TIME` that a run without a limit of its own is expected to take: it counts for planning and ends no run")
	return cmd
}

// projectEdit is the change that the flags ask for.
func projectEdit(cmd *cobra.Command, gpus, queued, weight, limit string) (func(*queue.Project), error) {
	var edits []func(*queue.Project)
	whole := func(flag, text string, into func(*queue.Project) **int) error {
		if !cmd.Flags().Changed(flag) {
			return nil
		}
		var value *int
		if text != none {
			n, err := strconv.Atoi(text)
			if err != nil {
				return exit.Errorf(exit.Usage, "--%s %q: want a whole number, or none", flag, text)
			}
			value = &n
		}
		edits = append(edits, func(p *queue.Project) { *into(p) = value })
		return nil
	}
	err := errors.Join(
		whole("max-gpus", gpus, func(p *queue.Project) **int { return &p.MaxGPUs }),
		whole("max-queued", queued, func(p *queue.Project) **int { return &p.MaxQueued }),
	)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("weight") {
		w, err := strconv.ParseFloat(weight, 64)
		if err != nil {
			return nil, exit.Errorf(exit.Usage, "--weight %q: want a number from 0.01 to 100", weight)
		}
		edits = append(edits, func(p *queue.Project) { p.Weight = &w })
	}
	if cmd.Flags().Changed("default-time-limit") {
		var d job.Duration
		if limit != none {
			if d, err = job.ParseDuration(limit); err != nil {
				return nil, exit.Errorf(exit.Usage, "--default-time-limit: %w", err)
			}
		}
		edits = append(edits, func(p *queue.Project) { p.DefaultTimeLimit = d })
	}
	if len(edits) == 0 {
		return nil, exit.Errorf(exit.Usage, "set what?").Hinted("--max-gpus, --max-queued, --weight or --default-time-limit; none takes a limit away")
	}
	return func(p *queue.Project) {
		for _, edit := range edits {
			edit(p)
		}
	}, nil
}

func newProjectList(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "list the projects that something was set for",
		Example: "  berth project ls\n  berth project ls -o csv",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				all, err := q.ProjectList(ctx)
				if err != nil {
					return cli.Broker(err)
				}
				return cli.Print(g, projectTable(), all)
			})
		},
	}
}

func newProjectShow(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME...",
		Short:   "show what projects may use",
		Example: "  berth project show vision serving",
		Args:    cli.Takes(1, -1, "a project's NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return showProjects(ctx, g, q, args) })
		},
	}
}

func showProjects(ctx context.Context, g *cli.Globals, q *queue.Queue, names []string) error {
	all := make([]queue.ProjectUse, len(names))
	for i, name := range names {
		p, err := q.Project(ctx, name)
		if errors.Is(err, queue.ErrBadRequest) {
			return exit.With(exit.Usage, err)
		}
		if err != nil {
			return cli.Broker(err)
		}
		all[i] = p
	}
	return cli.Print(g, projectTable(), all)
}

func projectTable() table.View[queue.ProjectUse] {
	limit := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	raw := func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}
	return table.View[queue.ProjectUse]{
		Name:  func(p queue.ProjectUse) string { return p.Name },
		Empty: "nothing was set for any project",
		Columns: []table.Column[queue.ProjectUse]{
			{Title: "PROJECT", Field: "name", Cell: func(p queue.ProjectUse) table.Cell { return table.Text(p.Name) }},
			{Title: "GPUS NOW", Field: "gpus", Right: true, Cell: func(p queue.ProjectUse) table.Cell {
				if p.MaxGPUs == nil {
					return table.Text("-") // only those of projects with a limit are counted
				}
				return table.Text(fmt.Sprint(p.GPUs))
			}, Raw: func(p queue.ProjectUse) string { return fmt.Sprint(p.GPUs) }},
			{Title: "MAX GPUS", Field: "max_gpus", Right: true, Cell: func(p queue.ProjectUse) table.Cell { return table.Text(limit(p.MaxGPUs)) },
				Raw: func(p queue.ProjectUse) string { return raw(p.MaxGPUs) }},
			{Title: "MAX QUEUED", Field: "max_queued", Right: true, Cell: func(p queue.ProjectUse) table.Cell { return table.Text(limit(p.MaxQueued)) },
				Raw: func(p queue.ProjectUse) string { return raw(p.MaxQueued) }},
			{Title: "WEIGHT", Field: "weight", Right: true, Cell: func(p queue.ProjectUse) table.Cell { return table.Text(fmt.Sprint(p.EffectiveWeight())) }},
			{Title: "TIME LIMIT", Field: "default_time_limit", Right: true, Cell: func(p queue.ProjectUse) table.Cell {
				if p.DefaultTimeLimit == 0 {
					return table.Text("-")
				}
				return table.Text(screen.Span(p.DefaultTimeLimit.Std()))
			}, Raw: func(p queue.ProjectUse) string {
				if p.DefaultTimeLimit == 0 {
					return ""
				}
				return p.DefaultTimeLimit.String()
			}},
			{Title: "BY", Field: "by", Wide: true, Cell: func(p queue.ProjectUse) table.Cell { return table.Text(dash(p.By)) },
				Raw: func(p queue.ProjectUse) string { return p.By }},
		},
	}
}
