package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// states are what --state takes.
var states = []job.State{job.Queued, job.Held, job.Running, job.Succeeded, job.Failed, job.Cancelled, job.TimedOut, job.OOMGPU,
	job.OOMHost, job.Expired, job.Dead}

func newStatus(g *cli.Globals) *cobra.Command {
	var filter queue.Filter
	var page queue.Page
	var wanted []string
	cmd := &cobra.Command{
		Use:   "status [ID...]",
		Short: "list jobs, or the tasks of a group",
		Example: "  berth status\n  berth status 1842                  # a job, or a group and its tasks\n" +
			"  berth status --state running,queued -o json",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if filter.States, err = parseStates(wanted); err != nil {
				return err
			}
			return look(g, cmd, func(ctx context.Context, g *cli.Globals, q *queue.Queue) error {
				if len(args) > 0 {
					return statusOf(ctx, g, q, args, page.Limit)
				}
				return statusAll(ctx, g, q, filter, page)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&filter.Project, "project", "p", "", "only this project")
	f.StringVarP(&filter.User, "user", "u", "", "only this user")
	f.StringVar(&filter.Name, "name", "", "only jobs of this name")
	f.StringSliceVarP(&wanted, "state", "s", nil, "only jobs in these states")
	f.IntVarP(&page.Limit, "limit", "n", 30, "how many")
	f.Uint64Var(&page.Before, "before", 0, "only jobs with a smaller number: the next page")
	f.SortFlags = false
	return watchable(cmd)
}

func parseStates(words []string) ([]job.State, error) {
	var found []job.State
	for _, w := range words {
		if !slices.Contains(states, job.State(w)) {
			names := make([]string, len(states))
			for i, s := range states {
				names[i] = string(s)
			}
			return nil, exit.Errorf(exit.Usage, "--state %q: the states are %s", w, strings.Join(names, ", "))
		}
		found = append(found, job.State(w))
	}
	return found, nil
}

func statusAll(ctx context.Context, g *cli.Globals, q *queue.Queue, filter queue.Filter, page queue.Page) error {
	if g.Screen().TTY && g.Output.ForPeople() && !g.Quiet {
		if err := headline(ctx, g, q); err != nil {
			return err
		}
	}
	views, next, err := q.List(ctx, filter, page)
	if err != nil {
		return cli.Broker(err)
	}
	if err := explain.Reasons(ctx, q, views, g.Env().Now()); err != nil {
		return cli.Broker(err)
	}
	if err := q.AddProgress(ctx, views); err != nil {
		return cli.Broker(err)
	}
	if err := cli.Print(g, jobTable(g.Env().Now()), views); err != nil {
		return err
	}
	if next > 0 && g.Screen().TTY && g.Output.ForPeople() {
		g.Say("more: berth status --before %d", next)
	}
	return nil
}

// headline is the queue in one line.
func headline(ctx context.Context, g *cli.Globals, q *queue.Queue) error {
	c, err := q.Counts(ctx)
	if err != nil {
		return cli.Broker(err)
	}
	line := fmt.Sprintf("%d running, %d queued, %d finished, %s", c.Running, c.Queued, c.Finished, screen.Plural(c.Machines, "machine"))
	if c.Machines == 0 {
		line += ": nothing will run until a worker starts (berth join says how)"
	}
	fmt.Fprintf(g.Out(), "%s\n\n", line)
	return nil
}

// statusOf lists the jobs that were named; a group is followed by its tasks.
func statusOf(ctx context.Context, g *cli.Globals, q *queue.Queue, words []string, limit int) error {
	found, err := refs(ctx, g, q, words)
	if err != nil {
		return err
	}
	var views []queue.JobView
	more := ""
	for _, ref := range found {
		v, err := q.Show(ctx, ref)
		if err != nil {
			return cli.Broker(err)
		}
		views = append(views, v)
		if v.Tasks == nil {
			continue
		}
		tasks, next, err := q.ListTasks(ctx, ref.Number, 0, limit)
		if err != nil {
			return cli.Broker(err)
		}
		views = append(views, tasks...)
		if next > 0 {
			more = fmt.Sprintf("the first %d of %d tasks; -n shows more", next, v.Tasks.Count)
		}
	}
	if err := explain.Reasons(ctx, q, views, g.Env().Now()); err != nil {
		return cli.Broker(err)
	}
	if err := q.AddProgress(ctx, views); err != nil {
		return cli.Broker(err)
	}
	if err := cli.Print(g, jobTable(g.Env().Now()), views); err != nil {
		return err
	}
	if more != "" && g.Output.ForPeople() {
		g.Say("%s", more)
	}
	return nil
}
