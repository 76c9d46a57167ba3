package operator

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/queue"
)

func newQuarantine(g *cli.Globals) *cobra.Command {
	cmd := gpuDeed(g, func(ctx context.Context, q *queue.Queue, at place, by, reason string) error {
		if err := q.Quarantine(ctx, at.machine, at.gpu, by, reason); err != nil {
			return err
		}
		g.Say("GPU %s of %s gets no new job, what runs on it goes on; berth gpus restore %s:%s ends that", at.gpu, at.machine, at.machine, at.gpu)
		return nil
	})
	cmd.Use, cmd.Short = "quarantine GPU...", "take GPUs out of service until they are restored"
	cmd.Example = "  berth gpus quarantine titan:2 --reason 'fan is loud'\n  berth gpus quarantine GPU-6a1f0c52-0b1c-4f0e-9d0a-2f4f3b1c7d11"
	return cmd
}

func newRestore(g *cli.Globals) *cobra.Command {
	cmd := gpuDeed(g, func(ctx context.Context, q *queue.Queue, at place, by, reason string) error {
		if err := q.Restore(ctx, at.machine, at.gpu, by, reason); err != nil {
			return err
		}
		g.Say("GPU %s of %s is back in service", at.gpu, at.machine)
		return nil
	})
	cmd.Use, cmd.Short = "restore GPU...", "put quarantined GPUs back into service, whoever took them out"
	cmd.Example = "  berth gpus restore titan:2 --reason 'new fan'"
	return cmd
}

// place is one GPU of one machine.
type place struct{ machine, gpu string }

// gpuDeed is a verb that is done to each GPU named: a UUID (or the beginning of one), or MACHINE:INDEX.
func gpuDeed(g *cli.Globals, do func(ctx context.Context, q *queue.Queue, at place, by, reason string) error) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Args: cli.Takes(1, -1, "a GPU (its UUID, or MACHINE:INDEX)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				all, err := q.Machines(ctx)
				if err != nil {
					return cli.Broker(err)
				}
				var errs []error
				for _, name := range args {
					at, err := findGPU(all, name)
					if err == nil {
						err = do(ctx, q, at, cli.Me(g.Env()).User, reason)
					}
					errs = append(errs, err)
				}
				return exit.With(exit.Failed, errors.Join(errs...))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "kept in the log of events, and shown with a quarantined GPU")
	return cmd
}

// findGPU says on which machine a GPU is. The machine itself knows best what its indexes mean; it is asked with the
// UUID, which cannot be another card by then.
func findGPU(all []queue.Machine, name string) (place, error) {
	if machine, gpu, ok := cutLast(name); ok {
		i := slices.IndexFunc(all, func(m queue.Machine) bool { return m.Name == machine })
		if i < 0 {
			return place{}, exit.Errorf(exit.Failed, "%s: no machine %q is connected; `berth machines` lists them", name, machine)
		}
		return place{machine, gpu}, nil
	}
	const enough = len("GPU-") + 8
	var found []place
	for _, m := range all {
		for _, gpu := range m.GPUs {
			if gpu.UUID == name || len(name) >= enough && strings.HasPrefix(gpu.UUID, name) {
				found = append(found, place{m.Name, gpu.UUID})
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return place{}, exit.Errorf(exit.Failed, "no connected machine has GPU %q: want a UUID, or MACHINE:INDEX; `berth gpus -o wide` lists both", name)
	}
	return place{}, exit.Errorf(exit.Failed, "%q is the beginning of %d GPUs: give more of the UUID", name, len(found))
}

// cutLast splits MACHINE:INDEX.
func cutLast(name string) (machine, gpu string, ok bool) {
	i := strings.LastIndexByte(name, ':')
	if i <= 0 || i == len(name)-1 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}
