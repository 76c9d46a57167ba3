package operator

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/lease"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/submit"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/queue"
)

// Root is the program berth.
func Root(env cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "berth",
		Short: "a GPU job queue on NATS JetStream",
		Long: "Berth queues jobs for GPUs. `berth up` starts everything on this machine; `submit -- COMMAND` queues a job;\n" +
			"`berth status` shows what waits and runs.",
		Version: cli.Version(),
	}
	cli.Verbs(cmd)
	g := cli.NewGlobals(cmd, env)
	cmd.AddGroup(&cobra.Group{ID: "jobs", Title: "Jobs:"}, &cobra.Group{ID: "machines", Title: "Machines:"},
		&cobra.Group{ID: "setup", Title: "Setting up:"})
	add(cmd, "jobs", submit.New(g), newStatus(g), newShow(g), newLogs(g), newWait(g), newCancel(g), newResults(g), submit.NewEstimate(g))
	add(cmd, "jobs", newExplain(g), newHold(g), newRelease(g), newSet(g), newRetry(g), newDead(g))
	add(cmd, "jobs", newReport(g), newEvents(g), newWebhook(g))
	add(cmd, "jobs", lease.New(g), lease.NewRun(g))
	add(cmd, "machines", newGPUs(g), newTop(g), newMachines(g), newCheck(g), newDrain(g), newUndrain(g), newProject(g))
	add(cmd, "setup", newUp(g), newJoin(g), newToken(g), worker.New(g), newDashboard(g), newDoctor(g), newVersion(g))
	complete(g, cmd)
	return cmd
}

func add(cmd *cobra.Command, group string, verbs ...*cobra.Command) {
	for _, v := range verbs {
		v.GroupID = group
		cmd.AddCommand(v)
	}
}

// ask runs one verb against the queue, until it is done or interrupted.
func ask(g *cli.Globals, cmd *cobra.Command, do func(ctx context.Context, q *queue.Queue) error) error {
	ctx, stop := g.Env().Interruptible(cmd.Context())
	defer stop()
	q, done, err := cli.Dial(ctx, g)
	if err != nil {
		return err
	}
	defer done()
	return do(ctx, q)
}

// look is ask for a verb that shows something, with -w again and again.
func look(g *cli.Globals, cmd *cobra.Command, show func(ctx context.Context, g *cli.Globals, q *queue.Queue) error) error {
	return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
		show := show
		if q.Demo() {
			show = marked(show)
		}
		if again, _ := cmd.Flags().GetBool(watchFlag); again { // every verb that looks has the flag
			return cli.Watch(ctx, g, func(ctx context.Context, g *cli.Globals) error { return show(ctx, g, q) })
		}
		return show(ctx, g, q)
	})
}

// marked says above what a person sees that nothing of it is real.
func marked(show func(context.Context, *cli.Globals, *queue.Queue) error) func(context.Context, *cli.Globals, *queue.Queue) error {
	return func(ctx context.Context, g *cli.Globals, q *queue.Queue) error {
		if term := g.Screen(); term.TTY && g.Output.ForPeople() && !g.Quiet {
			fmt.Fprintln(g.Out(), term.Paint(screen.Yellow, demoMark))
		}
		return show(ctx, g, q)
	}
}

const watchFlag = "watch"

// watchable gives a verb that looks its -w.
func watchable(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolP(watchFlag, "w", false, "look again each second until Ctrl-C")
	return cmd
}
