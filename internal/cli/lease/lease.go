package lease

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/queue"
)

// New is `berth lease`.
func New(g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "hold GPUs for yourself or a script, out of the same pool as jobs",
		Long: "Hold GPUs of this machine without running a job on them. A lease stands in the same queue as jobs; it ends when it is\n" +
			"released, after --for (8h), or with the process that --pid names.",
		Example: "  export CUDA_VISIBLE_DEVICES=$(berth lease get -g 2 --pid $$ --short)\n" +
			"  kct-krylov -p 0:$(berth lease get --short=index)\n" +
			"  berth lease release $CUDA_VISIBLE_DEVICES",
	}
	cli.Verbs(cmd)
	cmd.AddCommand(newGet(g), newRelease(g), newExtend(g), newList(g), newLog(g), newReset(g))
	return cmd
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

// brokerError gives an error of the queue its exit code.
func brokerError(err error) error {
	if errors.Is(err, queue.ErrNoLease) || errors.Is(err, queue.ErrBadRequest) {
		return exit.With(exit.Failed, err)
	}
	return cli.Broker(err)
}
