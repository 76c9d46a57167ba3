package operator

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/checkup"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/internal/version"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newDoctor(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "find what is wrong with the queue, and say what to type",
		Long: "Look at the broker, its streams and store, clocks, versions, machines, GPUs, and at jobs that wait for what will not\n" +
			"come. Exit code 1 when jobs cannot run. `worker check` examines one machine.",
		Example: "  berth doctor\n  berth doctor -o json | jq '.[] | select(.verdict != \"ok\")'",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := g.Env().Interruptible(cmd.Context())
			defer stop()
			q, done, err := cli.Dial(ctx, g)
			if err != nil {
				return checkup.Report(g, []checkup.Finding{unreachable(g, err)})
			}
			defer done()
			p, err := examine(ctx, q, g.Env().Now)
			if err != nil {
				return cli.Broker(err)
			}
			return checkup.Report(g, diagnose(p))
		},
	}
}

func unreachable(g *cli.Globals, err error) checkup.Finding {
	f := checkup.Finding{What: "broker", Verdict: checkup.Fails, Found: err.Error(), Do: "berth up starts one on this machine; --server names another"}
	if exit.Of(err) == exit.Interrupted {
		f.Do = ""
	}
	if _, settings, loadErr := g.Client(); loadErr == nil {
		if s, ok := settings.Get("server"); ok {
			f.Found += " (that address comes from: " + strings.TrimSpace(string(s.Layer)+" "+s.Where) + ")"
		}
	}
	return f
}

// patient is what the doctor has looked at.
type patient struct {
	health   queue.Health
	machines []queue.Machine
	waiting  []queue.JobView // the newest, with their reasons
	more     bool            // there are more of them than were looked at
	dead     int             // letters
	version  string          // of this command
	now      time.Time
}

// examined is how many waiting jobs are looked at.
const examined = 200

func examine(ctx context.Context, q *queue.Queue, now func() time.Time) (patient, error) {
	p := patient{version: version.Version, now: now()}
	var err error
	if p.health, err = q.Health(ctx); err != nil {
		return p, err
	}
	if p.machines, err = q.Machines(ctx); err != nil {
		return p, err
	}
	letters, err := q.Dead(ctx, "")
	if err != nil {
		return p, err
	}
	p.dead = len(letters)
	var next uint64
	p.waiting, next, err = q.List(ctx, queue.Filter{States: []job.State{job.Queued, job.Held}}, queue.Page{Limit: examined})
	if err != nil {
		return p, err
	}
	p.more = next > 0
	return p, explain.Reasons(ctx, q, p.waiting, p.now)
}
