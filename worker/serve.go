package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// serve takes jobs while there is room for them. It returns nil when ctx ends and an error when the session is lost.
func (w *Worker) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		d, err := w.next(ctx)
		switch {
		case errors.Is(err, queue.ErrSessionLost):
			return err
		case err != nil && ctx.Err() == nil:
			w.log.Warn("pull_failed", "err", err)
			pause(ctx, time.Second)
		case d != nil:
			w.take(ctx, d)
		}
	}
	return nil
}

// next waits for a job on a lane with room. It returns nothing when what this machine has room for, or the list of
// lanes, has changed in the meantime: then it is time to ask for other lanes. Waiting pulls stand on all the while.
func (w *Worker) next(ctx context.Context) (*queue.Delivery, error) {
	pool, lanes := w.pool.Changed(), w.cfg.Queue.LanesChanged()
	now := w.cfg.Now()
	wants := w.wants(now)
	look, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		var settle <-chan time.Time
		if at, ok := w.pool.NextChange(now); ok {
			t := time.NewTimer(at.Sub(now))
			defer t.Stop()
			settle = t.C
		}
		select {
		case <-pool:
		case <-lanes:
		case <-settle:
		case <-look.Done():
		}
	}()
	if len(wants) == 0 {
		<-look.Done()
		return nil, ctx.Err()
	}
	d, err := w.puller.Next(look, wants)
	if err != nil && look.Err() != nil {
		return nil, ctx.Err()
	}
	return d, err
}

// wants lists the lanes to ask now.
func (w *Worker) wants(now time.Time) []queue.Want {
	if w.draining.Load() {
		return nil
	}
	lanes := w.cfg.Queue.Lanes()
	lanes = slices.DeleteFunc(lanes, func(l queue.LaneInfo) bool {
		return !w.serves(l.Lane.Project) || w.overQuota(l.Lane.Project, l.Shape.Requirements.GPUs)
	})
	first, others := w.reservedFirst(lanes, now)
	room := w.room(now)
	return append(Pick(first, nil, room), PickBy(others, w.order(now), room)...)
}

// order is what decides between lanes now.
func (w *Worker) order(now time.Time) Order {
	return Order{Shares: w.shares.now(w).Weighted(w.cfg.Queue.Weights()), Waits: w.ages.waits(now), AgeAfter: w.cfg.AgeAfter}
}

// overQuota reports whether a project's runs hold so much that a job of so many GPUs must wait. It spares the asking;
// the claim asks the project's list itself.
func (w *Worker) overQuota(project string, gpus int) bool {
	left, limited := w.cfg.Queue.QuotaLeft(project)
	return limited && gpus > left
}

// reservedFirst puts the lane of the job this machine has reserved GPUs for before all others, and leaves out those
// that must not have these GPUs.
func (w *Worker) reservedFirst(lanes []queue.LaneInfo, now time.Time) (first, others []queue.LaneInfo) {
	for _, l := range lanes {
		exclude, reserved := w.mayAsk(l.Lane, now)
		switch {
		case reserved:
			first = append(first, l)
		case exclude == nil:
			others = append(others, l)
		default:
			if _, err := w.pool.BidFor(gpuslots.Request{Req: l.Shape.Requirements, Now: now, Exclude: exclude}); err == nil {
				others = append(others, l)
			}
		}
	}
	return first, others
}

// room is the pool's answer for a shape, with the priority of this machine's pull.
func (w *Worker) room(now time.Time) Room {
	return func(r job.Requirements) (int, bool) {
		if !w.mayTake(r) {
			return 0, false
		}
		bid, err := w.pool.Bid(r, now)
		switch {
		case err != nil:
			return 0, false
		case w.cfg.NoRanking:
			return 0, true
		}
		return bid.Priority, true
	}
}

// serves reports whether this worker takes jobs of a project.
func (w *Worker) serves(project string) bool {
	return len(w.cfg.Projects) == 0 || slices.Contains(w.cfg.Projects, project)
}

// A job that found no room though its lane had some differs from its shape in the exact numbers: it is looked at again
// after this, not at once and for ever.
const noRoomPause = 500 * time.Millisecond

// take gives the job its place and starts its attempt, or gives the job back.
func (w *Worker) take(ctx context.Context, d *queue.Delivery) {
	if why := nobodyWaits(d.Job.Spec); why != "" {
		w.attempts.Go(func() { w.dismiss(d, why) })
		return
	}
	alloc, err := w.grant(ctx, d)
	if err != nil {
		w.log.Debug("no_room", "job", d.Ref().String(), "err", err)
		delay := noRoomPause
		if w.reserved.isHeld() { // another machine may have it at once
			w.closeLane(d.Lane, w.cfg.Now())
			delay = 0
		}
		if err := d.Return(ctx, delay, err.Error()); err != nil {
			w.log.Warn("return_failed", "job", d.Ref().String(), "err", err)
		}
		return
	}
	begun := make(chan struct{})
	w.attempts.Go(func() { w.attempt(d, alloc, sync.OnceFunc(func() { close(begun) })) })
	yield(ctx, begun)
}

// startTime is how long a start may take before the next job is asked for all the same.
const startTime = 5 * time.Millisecond

// yield leaves the processors to a start that is under way: looking for the next job in the same milliseconds would delay
// this one on a small machine.
func yield(ctx context.Context, begun <-chan struct{}) {
	t := time.NewTimer(startTime)
	defer t.Stop()
	select {
	case <-begun:
	case <-t.C:
	case <-ctx.Done():
	}
}

// grant takes the GPUs a job needs, on a reading that is fresh.
func (w *Worker) grant(ctx context.Context, d *queue.Delivery) (*gpuslots.Allocation, error) {
	if d.Requirements.GPUs > 0 && w.pool.Stale(w.cfg.Now()) {
		snap, err := w.sampler.Refresh(ctx)
		if err != nil {
			return nil, err
		}
		w.pool.Observe(snap, w.cfg.Now())
	}
	return w.pool.TryAcquire(gpuslots.Request{
		Holder:  fmt.Sprintf("%s.%d", d.Ref(), d.Attempts()+1),
		Req:     d.Requirements,
		Now:     w.cfg.Now(),
		Avoid:   hurt(d.Record),
		Prefer:  preferred(d.Record),
		Exclude: w.placeFor(d.Lane, d.ExpectedLimit(ctx), w.cfg.Now()),
	})
}

// preferred lists the GPUs on which the job that this one names in same_gpu_as ran last.
func preferred(rec *job.Record) []string {
	if rec == nil || rec.Near == nil {
		return nil
	}
	return rec.Near.Devices
}

// hurt lists the GPUs on which the job's earlier attempts ran into a fault or out of memory: others first.
func hurt(rec *job.Record) []string {
	if rec == nil {
		return nil
	}
	var uuids []string
	for _, a := range rec.Attempts {
		if a.Outcome == job.OutcomeGPUFault || a.Outcome == job.OutcomeOOMGPU {
			uuids = append(uuids, a.Devices...)
		}
	}
	return uuids
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
