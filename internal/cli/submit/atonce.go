package submit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// startWithin bounds --now: how long the queue may take to start what there is room for.
const startWithin = 10 * time.Second

// askRoom refuses under --now, before anything is sent, a job that no machine has room for.
func askRoom(ctx context.Context, q *queue.Queue, env cli.Env, jobs []prepared) error {
	if len(jobs) != 1 || jobs[0].job.IsGroup() {
		return exit.Errorf(exit.Usage, "--now starts one job, not a group or several").Hinted("submit them one by one")
	}
	machines, err := q.Machines(ctx)
	if err != nil {
		return cli.Broker(err)
	}
	if len(machines) == 0 {
		return nothingFree("no machine is connected")
	}
	var said []string
	for _, m := range machines {
		room, err := q.AskRoom(ctx, m.Name, jobs[0].job.Requirements, cli.Me(env))
		switch {
		case errors.Is(err, queue.ErrNoWorker):
			said = append(said, m.Name+" does not answer")
		case err != nil:
			return cli.Broker(err)
		case room.OK:
			return nil
		default:
			said = append(said, m.Name+": "+room.Text)
		}
	}
	return nothingFree(strings.Join(said, "; "))
}

func nothingFree(why string) error {
	return exit.Errorf(exit.NothingFree, "nothing is free now: %s", why).Hinted("without --now it waits its turn")
}

// started waits until a job sent with --now runs. One that does not is taken back: what was free went to others.
func started(ctx context.Context, q *queue.Queue, env cli.Env, number uint64) error {
	ref := queue.JobRef(number)
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	_, err := q.WaitStarted(limited, ref)
	if err == nil {
		return nil
	}
	if limited.Err() == nil {
		return cli.Broker(err)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer stop()
	state, err := q.Withdraw(last, ref, cli.Me(env).User, "it could not start at once")
	switch {
	case errors.Is(err, queue.ErrFinal), err == nil && state == job.Running:
		return ctx.Err() // it has been started, or is over, after all
	case err != nil:
		return cli.Broker(err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return nothingFree("what was free went to others")
}
