package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// reservation is the wide job this machine drains some of its GPUs towards; there is one at a time.
//
//	a wide job is old and fits here, not now
//	        |  nobody reserved it, or this machine is free clearly sooner
//	        v
//	held: renewed, GPUs kept for it, others only if they end in time
//	        |  the job runs or is gone; another machine outbids
//	        v
//	none
type reservation struct {
	mu     sync.Mutex
	held   bool
	ref    queue.Ref
	lane   job.Lane
	rev    uint64
	freeAt time.Time
	gpus   []string
	closed map[job.Lane]time.Time // lanes whose first job would not end in time, until when they are left alone
}

// closedFor is how long a lane is left alone whose first job would not end in time: the next one might.
const closedFor = 5 * time.Second

// keepReservation looks for a wide job that waits too long, until ctx ends.
func (w *Worker) keepReservation(ctx context.Context) {
	tick := time.NewTicker(min(reserveEvery, max(w.cfg.ReserveAfter/4, 50*time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.giveUpReservation()
			return
		case <-tick.C:
		}
		if err := w.reviewReservation(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug("reservation_not_reviewed", "err", err) // it is looked at again, or ends by itself
		}
	}
}

// reserveEvery is how often a worker looks for wide jobs that wait; a reservation ends by itself after 15 s.
const reserveEvery = 4 * time.Second

func (w *Worker) reviewReservation(ctx context.Context) error {
	if w.reserved.isHeld() {
		return w.renewReservation(ctx)
	}
	if w.draining.Load() {
		return nil
	}
	now := w.cfg.Now()
	for _, l := range w.cfg.Queue.Lanes() {
		req := l.Shape.Requirements
		if req.GPUs < 2 || w.pool.CanEver(req) != nil || !w.serves(l.Lane.Project) {
			continue
		}
		if _, err := w.pool.Room(req, now); err == nil {
			continue // it is asked for in the ordinary way
		}
		head, ok, err := w.cfg.Queue.LaneHead(ctx, l.Lane)
		if err != nil {
			return err
		}
		if ok && now.Sub(head.QueuedAt) >= w.cfg.ReserveAfter {
			if taken, err := w.tryReserve(ctx, l.Lane, head, now); taken || err != nil {
				return err
			}
		}
	}
	return nil
}

// tryReserve takes the reservation of a job if nobody has it or this machine is free clearly sooner.
func (w *Worker) tryReserve(ctx context.Context, lane job.Lane, head queue.Head, now time.Time) (bool, error) {
	at, gpus, ok := w.freeAt(head.Requirements, now)
	if !ok {
		return false, nil
	}
	was, rev, err := w.cfg.Queue.Reservation(ctx, head.Ref)
	if err != nil {
		return false, err
	}
	if was.Machine != "" && !Outbids(now, at, was.FreeAt) {
		return false, nil
	}
	rev, err = w.cfg.Queue.Reserve(ctx, head.Ref, w.reservationOf(head.Ref, at, gpus, now), rev)
	if errors.Is(err, queue.ErrStepBack) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.reserved.hold(head.Ref, lane, rev, at, gpus)
	w.log.Info("reserved", "job", head.Ref.String(), "gpus", gpus, "free_at", at, "waited", now.Sub(head.QueuedAt).Round(time.Second))
	w.pool.Nudge() // what is asked for changes
	return true, nil
}

func (w *Worker) reservationOf(ref queue.Ref, at time.Time, gpus []string, now time.Time) queue.Reservation {
	return queue.Reservation{Job: ref.String(), Machine: w.cfg.Machine, Session: w.session().ID(), FreeAt: at, GPUs: gpus, At: now}
}

// renewReservation keeps it while the job waits.
func (w *Worker) renewReservation(ctx context.Context) error {
	now := w.cfg.Now()
	ref, lane, rev := w.reserved.what()
	head, ok, err := w.cfg.Queue.LaneHead(ctx, lane)
	if err != nil {
		return err
	}
	at, gpus, fits := w.freeAt(head.Requirements, now)
	if !ok || head.Ref != ref || !fits || w.draining.Load() {
		w.giveUpReservation()
		return nil
	}
	next, err := w.cfg.Queue.Reserve(ctx, ref, w.reservationOf(ref, at, gpus, now), rev)
	if errors.Is(err, queue.ErrStepBack) {
		w.log.Info("reservation_outbid", "job", ref.String())
		w.reserved.drop()
		w.pool.Nudge()
		return nil
	}
	if err != nil {
		return err
	}
	w.reserved.hold(ref, lane, next, at, gpus)
	return nil
}

func (w *Worker) giveUpReservation() {
	if !w.reserved.isHeld() {
		return
	}
	ref, _, rev := w.reserved.what()
	w.reserved.drop()
	w.pool.Nudge()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.background), 2*time.Second)
	defer cancel()
	if err := w.cfg.Queue.Unreserve(ctx, ref, rev); err != nil {
		w.log.Debug("reservation_not_given_up", "job", ref.String(), "err", err) // it ends by itself
	}
}

// freeAt is when this machine could have the GPUs for it, by what its runs say about their end.
func (w *Worker) freeAt(req job.Requirements, now time.Time) (time.Time, []string, bool) {
	suitable, err := w.pool.Suitable(req)
	if err != nil {
		return time.Time{}, nil, false
	}
	ends := make([]GPUEnd, len(suitable))
	at := map[string]int{}
	for i, uuid := range suitable {
		ends[i].UUID = uuid
		at[uuid] = i
	}
	w.runs.each(func(a *attempt) {
		limit := a.claim.ExpectedLimit()
		for _, d := range a.devices() {
			i, ok := at[d.UUID]
			if !ok {
				continue
			}
			if end := a.startedAt().Add(limit); limit == 0 {
				ends[i].Unknown = true
			} else if end.After(ends[i].Until) {
				ends[i].Until = end
			}
		}
	})
	return FreeAt(now, req.GPUs, ends)
}

// placeFor limits a job beside a reservation: it gets the reserved GPUs only if it ends before they are needed, or is
// the job they are reserved for.
func (w *Worker) placeFor(lane job.Lane, limit time.Duration, now time.Time) (exclude []string) {
	r := &w.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held || lane == r.lane || EndsInTime(now, limit, r.freeAt) {
		return nil
	}
	return r.gpus
}

// mayAsk reports whether a lane is worth asking beside the reservation, and which GPUs are surely not for it.
func (w *Worker) mayAsk(lane job.Lane, now time.Time) (exclude []string, reserved bool) {
	r := &w.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.held:
		return nil, false
	case lane == r.lane:
		return nil, true
	case now.Before(r.closed[lane]):
		return r.gpus, false
	}
	return nil, false
}

// closeLane notes that the first job of a lane would not end in time.
func (w *Worker) closeLane(lane job.Lane, now time.Time) {
	r := &w.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		r.closed[lane] = now.Add(closedFor)
	}
}

func (r *reservation) isHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

func (r *reservation) what() (queue.Ref, job.Lane, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ref, r.lane, r.rev
}

func (r *reservation) hold(ref queue.Ref, lane job.Lane, rev uint64, at time.Time, gpus []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held || r.ref != ref {
		r.closed = map[job.Lane]time.Time{}
	}
	r.held, r.ref, r.lane, r.rev, r.freeAt, r.gpus = true, ref, lane, rev, at, gpus
}

func (r *reservation) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held, r.gpus, r.closed = false, nil, nil
}
