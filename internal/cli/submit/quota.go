package submit

import (
	"context"
	"errors"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/queue"
)

// askQuota refuses what the projects may not queue, before anything is sent: all of it or none.
func askQuota(ctx context.Context, q *queue.Queue, jobs []prepared) error {
	more, widest := map[string]int{}, map[string]int{}
	for _, p := range jobs {
		n := 1
		widest[p.job.Project] = max(widest[p.job.Project], p.job.Requirements.GPUs)
		if t := p.job.Tasks; t != nil {
			n = t.Count
			for _, r := range t.Requirements {
				widest[p.job.Project] = max(widest[p.job.Project], r.GPUs)
			}
		}
		more[p.job.Project] += n
	}
	for project, n := range more {
		err := q.MayQueue(ctx, project, n, widest[project])
		if errors.Is(err, queue.ErrQuota) {
			return exit.With(exit.Refused, err)
		}
		if err != nil {
			return cli.Broker(err)
		}
	}
	return nil
}
