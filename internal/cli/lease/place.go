package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/proc"
)

// place is the machine a lease is bound to.
type place struct {
	queue.Machine
	here bool // this very machine
	pids bool // its worker sees the same processes as we do
	room queue.Room
}

// machinesFor lists the workers that are meant: the one named, or those on this machine, likeliest first.
func machinesFor(ctx context.Context, g *cli.Globals, q *queue.Queue, name string) ([]place, error) {
	all, err := q.Machines(ctx)
	if err != nil {
		return nil, cli.Broker(err)
	}
	boot, space, host := proc.BootID(), proc.PIDSpace(), g.Env().Host
	var found []place
	for _, m := range all {
		p := place{Machine: m, here: m.Boot != "" && m.Boot == boot}
		p.pids = p.here && m.PIDSpace == space
		if name == m.Name || name == "" && p.here {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b place) int { return cmp.Compare(rank(a, host), rank(b, host)) })
	switch {
	case len(found) > 0:
		return found, nil
	case name != "":
		return nil, exit.Errorf(exit.Refused, "no worker named %s is connected", name).Hinted("%s", connected(all))
	}
	return nil, exit.Errorf(exit.Refused, "no worker runs on this machine (%s), so nobody here gives GPUs out", host).
		Hinted("start one: berth up, or worker; or lease on another machine: --machine NAME (%s)", connected(all))
}

func rank(p place, host string) int {
	switch {
	case p.Name == host:
		return 0
	case len(p.GPUs) > 0:
		return 1
	}
	return 2
}

func connected(all []queue.Machine) string {
	if len(all) == 0 {
		return "no machine is connected"
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	return "connected: " + strings.Join(names, ", ")
}

// choose takes the machine that has room now, else the first that could ever have it.
func choose(ctx context.Context, q *queue.Queue, me queue.Me, places []place, req job.Requirements) (place, error) {
	var never []string
	var best *place
	for i := range places {
		p := &places[i]
		req.Machine = p.Name
		room, err := q.AskRoom(ctx, p.Name, req, me)
		switch {
		case errors.Is(err, queue.ErrNoWorker): // it is being restarted, or gone for good: presence tells within 15 s
			p.room = queue.Room{Text: "the worker on " + p.Name + " does not answer at the moment"}
		case err != nil:
			return place{}, cli.Broker(err)
		default:
			p.room = room
		}
		if p.room.Never {
			never = append(never, p.room.Text)
			continue
		}
		if best == nil || p.room.OK && !best.room.OK {
			best = p
		}
	}
	if best == nil {
		return place{}, exit.Errorf(exit.Refused, "that can never be given: %s", strings.Join(never, "; "))
	}
	return *best, nil
}
