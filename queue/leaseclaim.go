package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/berthq/berth/job"
)

// leaseTold is what a claim's holder has heard about its lease.
type leaseTold struct {
	release bool
	ends    bool // until has been told
	until   *time.Time
}

// Held writes that the GPUs are the holder's from now on, until then (nil: without end). ErrClaimLost: they are not.
func (c *Claim) Held(ctx context.Context, until *time.Time, gpus []job.LeasedGPU) error {
	rec, err := c.q.records.change(ctx, c.ref, func(rec *job.Record) (*job.Record, error) {
		if !c.owns(rec) {
			return nil, ErrClaimLost
		}
		var l job.LeaseRecord // a wish to release it may be there already
		if rec.Lease != nil {
			l = *rec.Lease
		}
		now := c.q.now().UTC()
		l.HeldAt, l.Until, l.GPUs = &now, until, gpus
		rec.Lease = &l
		return rec, nil
	})
	if err != nil {
		return fmt.Errorf("lease %s: %w", c.ref, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec = *rec
	c.lease.ends, c.lease.until = true, until
	return nil
}

// tellLease passes on what has changed about the lease. What finds no room in the channel is told at the next look.
func (c *Claim) tellLease(l *job.LeaseRecord) {
	if l == nil {
		return
	}
	if l.Release != nil {
		c.lease.release = c.lease.release || c.tell(ControlEvent{Kind: ControlRelease, By: l.Release.By, Reason: l.Release.Reason})
		return
	}
	if l.HeldAt != nil && (!c.lease.ends || !sameTime(l.Until, c.lease.until)) && c.tell(ControlEvent{Kind: ControlExtend, Until: l.Until}) {
		c.lease.ends, c.lease.until = true, l.Until
	}
}

func (c *Claim) tell(e ControlEvent) bool {
	select {
	case c.control <- e:
		return true
	default:
		return false
	}
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// closeLostLease ends a lease whose worker is gone: whoever asked has the GPUs' names already, and would not hear of
// others. False: it had not been given yet, and waits on.
func (q *Queue) closeLostLease(j *job.Job, ref Ref, rec *job.Record) bool {
	switch l := rec.Lease; {
	case l == nil, l.HeldAt == nil && l.Release == nil:
		return false
	case l.Release != nil:
		q.closeRecord(j, ref, rec, job.Result{State: job.Cancelled, Reason: "released by " + l.Release.By})
	default:
		q.closeRecord(j, ref, rec, job.Result{State: job.Failed, Reason: "machine_lost: a lease is given once"})
	}
	return true
}
