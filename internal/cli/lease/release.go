package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newRelease(g *cli.Globals) *cobra.Command {
	var m meaning
	cmd := &cobra.Command{
		Use:   "release [LEASE|GPUS]...",
		Short: "give leased GPUs back",
		Long: "Give back leases, by number or by their GPUs (UUIDs or indexes, comma-separated, as get --short printed them): then it is\n" +
			"your newest lease on exactly these. Without an argument: your lease on this machine, if it is the only one.",
		Example: "  berth lease release 1842\n  berth lease release $CUDA_VISIBLE_DEVICES\n  berth lease release --gpus $GPUID",
		Args:    cli.Takes(0, -1, "a LEASE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				found, err := m.leases(ctx, g, q, args)
				if err != nil {
					return err
				}
				for _, ref := range found {
					if err := release(ctx, g, q, ref, false); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	m.bind(cmd.Flags())
	return cmd
}

// proofWithin is how long a release waits until the GPUs are free; its worker may be away.
const proofWithin = 15 * time.Second

func release(ctx context.Context, g *cli.Globals, q *queue.Queue, ref queue.Ref, force bool) error {
	state, err := q.ReleaseLease(ctx, ref, cli.Me(g.Env()).User, "", force)
	if err != nil {
		return brokerError(err)
	}
	if state != job.Running {
		return say(g, ref, "withdrawn, it was still waiting")
	}
	proof, cancel := context.WithTimeout(ctx, proofWithin)
	defer cancel()
	_, err = q.WaitResult(proof, ref)
	switch {
	case err == nil:
		return say(g, ref, "released")
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return say(g, ref, "will be released when its worker is back")
	}
	return brokerError(err)
}

func newExtend(g *cli.Globals) *cobra.Command {
	var m meaning
	lasts := span{d: job.DefaultLease.Std()}
	cmd := &cobra.Command{
		Use:     "extend [LEASE|GPUS]",
		Short:   "hold leased GPUs for longer, counted from now",
		Example: "  berth lease extend 1842 --for 2h\n  berth lease extend 1842 --for 0      # until it is released",
		Args:    cli.Takes(0, 1, "a LEASE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				found, err := m.leases(ctx, g, q, args)
				if err != nil {
					return err
				}
				var until *time.Time
				text := "held until it is released"
				if lasts.d > 0 {
					end := g.Env().Now().Add(lasts.d).UTC()
					until, text = &end, "held for another "+screen.Span(lasts.d)
				}
				if err := q.ExtendLease(ctx, found[0], cli.Me(g.Env()).User, until); err != nil {
					return brokerError(err)
				}
				return say(g, found[0], text)
			})
		},
	}
	cmd.Flags().Var(&lasts, "for", "from now on; 0: until it is released")
	m.bind(cmd.Flags())
	return cmd
}

func newReset(g *cli.Globals) *cobra.Command {
	var machine string
	var force bool
	cmd := &cobra.Command{
		Use:     "reset --force",
		Short:   "end every lease on this machine, whoever holds it",
		Example: "  berth lease reset --force",
		Long: "End every lease that is held on this machine. What waits goes on waiting and may be given next. Nobody needs this to get\n" +
			"rid of the dead: a lease with --pid ends with its process, any other when its time is over.",
		Args: cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return reset(ctx, g, q, machine, force) })
		},
	}
	cmd.Flags().StringVar(&machine, "machine", "", "on this machine instead of the one we are on")
	cmd.Flags().BoolVar(&force, "force", false, "yes, other people's too")
	return cmd
}

func reset(ctx context.Context, g *cli.Globals, q *queue.Queue, machine string, force bool) error {
	places, err := machinesFor(ctx, g, q, machine)
	if err != nil {
		return err
	}
	held, err := heldOn(ctx, g, q, places)
	if err != nil {
		return err
	}
	if len(held) == 0 {
		g.Say("berth: nothing is leased")
		return nil
	}
	if !force {
		return exit.Errorf(exit.Usage, "that ends %s: %s", screen.Plural(len(held), "lease"), whose(held)).Hinted("--force does it")
	}
	for _, l := range held {
		if err := release(ctx, g, q, queue.JobRef(l.Number), true); err != nil && !errors.Is(err, queue.ErrFinal) {
			return err
		}
	}
	return nil
}

func whose(held []queue.HeldLease) string {
	text := ""
	for i, l := range held {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d of %s on GPU %s", l.Number, l.User, grant{GPUs: l.GPUs}.indexes())
	}
	return text
}

// deed is what a verb did, for programs.
type deed struct {
	Version int    `json:"version"`
	Lease   string `json:"lease"`
	State   string `json:"state"`
}

func say(g *cli.Globals, ref queue.Ref, what string) error {
	if g.Output.ForPeople() {
		if g.Screen().TTY && !g.Quiet {
			fmt.Fprintf(g.Out(), "lease %s %s\n", ref, what)
		}
		return nil
	}
	return cli.Print(g, deedView, []deed{{1, ref.String(), what}})
}

var deedView = table.View[deed]{
	Name: func(d deed) string { return d.Lease },
	Columns: []table.Column[deed]{
		{Field: "lease", Cell: func(d deed) table.Cell { return table.Text(d.Lease) }},
		{Field: "state", Cell: func(d deed) table.Cell { return table.Text(d.State) }},
	},
}
