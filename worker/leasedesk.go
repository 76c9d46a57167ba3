package worker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// lend answers questions about this machine's leases and its room until ctx ends.
func (w *Worker) lend(ctx context.Context) {
	err := w.cfg.Queue.ServeLeases(ctx, queue.LeaseDesk{Machine: w.cfg.Machine, Held: w.heldLeases, Room: w.roomFor})
	if err != nil && ctx.Err() == nil {
		w.log.Error("lease_desk_ended", "err", err)
	}
}

func (w *Worker) heldLeases() []queue.HeldLease {
	var all []queue.HeldLease
	w.runs.each(func(a *attempt) {
		l := a.claim.Record().Lease
		if !a.spec().IsLease() || l != nil && l.Release != nil {
			return
		}
		held := queue.HeldLease{
			Number: a.claim.Ref().Number, Name: a.spec().Name, Project: a.project, User: a.claim.Job.User, Machine: w.cfg.Machine,
			GPUs: a.leased(), Since: a.startedAt(), Until: a.leaseEnd(),
		}
		if l != nil && l.HeldAt != nil { // it may have been extended
			held.Until = l.Until
		}
		if wish := a.spec().Lease; wish != nil {
			held.Process = wish.Process
		}
		all = append(all, held)
	})
	slices.SortFunc(all, func(a, b queue.HeldLease) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// endingWithin bounds how long an answer about room waits for runs that have ended and are being taken off the books: who
// has just read the result of one takes its GPUs for free.
const endingWithin = time.Second

func (w *Worker) awaitEnding(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endingWithin)
	defer cancel()
	var ending []*attempt
	w.runs.each(func(a *attempt) {
		select {
		case <-a.handle.Done():
			ending = append(ending, a)
		default:
		}
	})
	for _, a := range ending {
		select {
		case <-a.gone:
		case <-ctx.Done():
			return
		}
	}
}

// roomFor says whether the machine could give this now. A no rests on a look taken after the question: what the last one
// saw, a run that was just ending, may have gone, and whoever asks with --wait 0 does not ask again.
func (w *Worker) roomFor(ctx context.Context, req job.Requirements) queue.Room {
	if err := w.pool.CanEver(req); err != nil {
		return queue.Room{Never: true, Text: err.Error()}
	}
	_, no := w.pool.Room(req, w.cfg.Now())
	if req.GPUs > 0 && (no != nil || w.pool.Stale(w.cfg.Now())) {
		w.awaitEnding(ctx)
		snap, err := w.sampler.Refresh(ctx)
		if err != nil {
			return queue.Room{Text: err.Error()}
		}
		w.pool.Observe(snap, w.cfg.Now())
		w.cleanUp(snap)
		_, no = w.pool.Room(req, w.cfg.Now())
	}
	if no != nil {
		return queue.Room{Text: no.Error()}
	}
	return queue.Room{OK: true, Text: w.pool.CheckFor(req, w.cfg.Now()).Text}
}
