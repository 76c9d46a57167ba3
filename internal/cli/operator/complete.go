package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// completeWithin is how long a shell waits for words: a slow broker gives none rather than a stuck prompt.
const completeWithin = time.Second

// complete gives the verbs under root what a shell completes: jobs, machines and GPUs where they are arguments, projects,
// machines and states where they are flags.
func complete(g *cli.Globals, root *cobra.Command) {
	what := map[string]words{
		"status": jobs(nil), "show": jobs(nil), "explain": jobs(waiting), "logs": jobs(nil), "cancel": jobs(unended),
		"wait": jobs(unended), "results": jobs(nil), "retry": jobs(ended), "report": jobs(ended), "hold": jobs(waiting),
		"release": jobs(waiting), "set": jobs(unended), "dead show": jobs(dead), "dead retry": jobs(dead), "dead drop": jobs(dead),
		"drain": machines, "undrain": machines, "gpus quarantine": gpus, "gpus restore": gpus,
		"lease release": leases, "lease extend": leases, "project set": projects, "project show": projects, "project rm": projects,
	}
	flags := map[string]words{"project": projects, "machine": machines, "state": ofStates, "after-ok": jobs(nil), "after": jobs(nil),
		"same-gpu-as": jobs(nil), "gpu-ids": gpus}
	each(root, func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		if w, ok := what[path]; ok && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = w.completer(g)
		}
		for name, w := range flags {
			if cmd.Flags().Lookup(name) == nil {
				continue
			}
			if _, has := cmd.GetFlagCompletionFunc(name); !has {
				_ = cmd.RegisterFlagCompletionFunc(name, w.completer(g)) // fails only where the flag is missing or has one
			}
		}
	})
}

func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range cmd.Commands() {
		each(c, do)
	}
}

// words finds what could be typed, each with a note after a tab.
type words func(ctx context.Context, q *queue.Queue) ([]string, error)

func (w words) completer(g *cli.Globals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Root().Context(), completeWithin)
		defer cancel()
		q, done, err := cli.Dial(ctx, g)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // nobody to ask is no news at a prompt
		}
		defer done()
		all, err := w(ctx, q)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var fitting []string
		for _, word := range all {
			if strings.HasPrefix(word, begun) {
				fitting = append(fitting, word)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

var (
	unended = []job.State{job.Queued, job.Held, job.Running}
	waiting = []job.State{job.Queued, job.Held}
	ended   = []job.State{job.Succeeded, job.Failed, job.Cancelled, job.TimedOut, job.OOMGPU, job.OOMHost, job.Expired, job.Dead}
	dead    = []job.State{job.Dead}
)

// jobs are the newest ones in those states (nil: any), and @last.
func jobs(in []job.State) words {
	return func(ctx context.Context, q *queue.Queue) ([]string, error) {
		const most = 30
		views, _, err := q.List(ctx, queue.Filter{States: in}, queue.Page{Limit: most})
		if err != nil {
			return nil, err
		}
		var all []string
		for _, v := range views {
			all = append(all, fmt.Sprintf("%s\t%s %s, %s", v.Ref, v.State, screen.Safe(nameOf(v)), v.User))
		}
		return append(all, "@last\tthe one you submitted last"), nil
	}
}

// leases are those that are held, with what for.
func leases(ctx context.Context, q *queue.Queue) ([]string, error) {
	running, err := jobs([]job.State{job.Running})(ctx, q)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, word := range running {
		ref, err := queue.ParseRef(strings.SplitN(word, "\t", 2)[0])
		if err != nil {
			continue // @last
		}
		if j, err := q.Job(ctx, ref.Number); err == nil && j.Spec.IsLease() {
			all = append(all, word)
		}
	}
	return all, nil
}

func machines(ctx context.Context, q *queue.Queue) ([]string, error) {
	known, err := q.Machines(ctx)
	var all []string
	for _, m := range known {
		all = append(all, fmt.Sprintf("%s\t%s", m.Name, screen.Plural(len(m.GPUs), "GPU")))
	}
	return all, err
}

func gpus(ctx context.Context, q *queue.Queue) ([]string, error) {
	known, err := q.Machines(ctx)
	var all []string
	for _, m := range known {
		for _, gpu := range m.GPUs {
			all = append(all, fmt.Sprintf("%s\t%s GPU %d, %s, %s", gpu.UUID, m.Name, gpu.Index, gpu.Name, gpu.State))
		}
	}
	return all, err
}

func projects(ctx context.Context, q *queue.Queue) ([]string, error) {
	known, err := q.ProjectList(ctx)
	var all []string
	for _, p := range known {
		all = append(all, p.Name)
	}
	return all, err
}

func ofStates(context.Context, *queue.Queue) ([]string, error) {
	all := make([]string, len(states))
	for i, s := range states {
		all[i] = string(s)
	}
	return all, nil
}
