package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthq/berth/job"
)

// The deeds on a lease, inside a request of the verb lease.
const (
	leaseRelease  = "release"  // end it, whether it waits or is held
	leaseWithdraw = "withdraw" // end it if it still waits
	leaseExtend   = "extend"
)

// leaseWish is what a request of the verb lease asks.
type leaseWish struct {
	Do    string     `json:"do"`
	Force bool       `json:"force,omitempty"` // somebody else's too
	Until *time.Time `json:"until,omitempty"` // of extend; absent is without end
}

// ErrNoLease is the answer for a job that runs something.
var ErrNoLease = errors.New("not a lease")

// ReleaseLease ends a lease: Cancelled if it was still waiting, Running if its worker has been told (WaitResult is the
// proof). Only its holder may, unless force is set. ErrFinal: it has ended already. Where no worker answers, the wish is
// written right here, and the worker that comes back finds it.
func (q *Queue) ReleaseLease(ctx context.Context, ref Ref, by, reason string, force bool) (job.State, error) {
	return q.askLease(ctx, ref, by, reason, leaseWish{Do: leaseRelease, Force: force})
}

// WithdrawLease ends a lease that still waits: Cancelled. Running: it has been given meanwhile, and stays so.
func (q *Queue) WithdrawLease(ctx context.Context, ref Ref, by, reason string) (job.State, error) {
	return q.askLease(ctx, ref, by, reason, leaseWish{Do: leaseWithdraw})
}

// ExtendLease moves the end of a lease that is held; nil takes it away.
func (q *Queue) ExtendLease(ctx context.Context, ref Ref, by string, until *time.Time) error {
	_, err := q.askLease(ctx, ref, by, "", leaseWish{Do: leaseExtend, Until: until})
	return err
}

func (q *Queue) askLease(ctx context.Context, ref Ref, by, reason string, wish leaseWish) (job.State, error) {
	return q.askAbout(ctx, verbLease, ref, by, controlRequest{Job: ref.String(), Reason: reason, Lease: &wish})
}

// leaseDeed does what a request of the verb lease asks, for that user.
func (q *Queue) leaseDeed(ctx context.Context, ref Ref, j *job.Job, user string, r controlRequest) (job.State, error) {
	switch {
	case r.Lease == nil:
		return "", fmt.Errorf("%w: it does not say what to do with the lease", ErrBadRequest)
	case j == nil || ref.Task || !j.Spec.IsLease():
		return "", fmt.Errorf("%s is %w; berth cancel %s ends it", ref, ErrNoLease, ref)
	case j.User != user && !r.Lease.Force:
		return "", fmt.Errorf("%w: lease %s is held by %s, you are %s", ErrNotAllowed, ref, j.User, user)
	}
	why := job.Cancel{By: user, At: q.now().UTC(), Reason: r.Reason}
	switch r.Lease.Do {
	case leaseRelease:
		return q.releaseLease(ctx, ref, why)
	case leaseWithdraw:
		err := q.endUnclaimed(ctx, ref, ending{state: job.Cancelled, by: &why})
		if errors.Is(err, errRunning) {
			return job.Running, nil
		}
		return job.Cancelled, err
	case leaseExtend:
		return job.Running, q.extendLease(ctx, ref, r.Lease.Until)
	}
	return "", fmt.Errorf("%w: this version cannot %q a lease", ErrBadRequest, r.Lease.Do)
}

func (q *Queue) releaseLease(ctx context.Context, ref Ref, why job.Cancel) (job.State, error) {
	for {
		err := q.endUnclaimed(ctx, ref, ending{state: job.Cancelled, by: &why})
		if err == nil {
			return job.Cancelled, nil
		}
		if errors.Is(err, ErrFinal) {
			return "", q.leaseEnded(ctx, ref)
		}
		if !errors.Is(err, errRunning) {
			return "", err
		}
		err = q.changeHeld(ctx, ref, func(l *job.LeaseRecord) error {
			if l.Release != nil {
				return errNoChange
			}
			l.Release = &why
			return nil
		})
		if !errors.Is(err, errNoHolder) {
			return job.Running, err
		}
	}
}

func (q *Queue) extendLease(ctx context.Context, ref Ref, until *time.Time) error {
	err := q.changeHeld(ctx, ref, func(l *job.LeaseRecord) error {
		switch {
		case l.Release != nil:
			return fmt.Errorf("%w: lease %s is being released by %s", ErrFinal, ref, l.Release.By)
		case l.HeldAt == nil:
			return errNoHolder
		}
		l.Until = until
		return nil
	})
	if !errors.Is(err, errNoHolder) {
		return err
	}
	rec, _, err := q.records.read(ctx, ref, true)
	switch {
	case err != nil:
		return err
	case rec != nil && rec.State.Final():
		return q.leaseEnded(ctx, ref)
	}
	return fmt.Errorf("%w: lease %s still waits, it has no end to move", ErrBadRequest, ref)
}

// changeHeld edits what the record says of a lease that somebody's worker holds, and tells that worker. errNoHolder:
// nobody does.
func (q *Queue) changeHeld(ctx context.Context, ref Ref, edit func(*job.LeaseRecord) error) error {
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil || rec.State != job.Running {
			return nil, errNoHolder
		}
		var l job.LeaseRecord
		if rec.Lease != nil {
			l = *rec.Lease
		}
		if err := edit(&l); err != nil {
			return nil, err
		}
		rec.Lease = &l
		return rec, nil
	})
	if err != nil {
		return err
	}
	return q.notifyHolder(rec.Session, ref)
}

// leaseEnded says of a lease that is over how it ended.
func (q *Queue) leaseEnded(ctx context.Context, ref Ref) error {
	rec, _, err := q.records.read(ctx, ref, true)
	if err != nil || rec == nil || rec.Result == nil {
		return ErrFinal
	}
	text := string(rec.State)
	if rec.Result.Reason != "" {
		text = rec.Result.Reason
	}
	if rec.EndedAt != nil {
		text += ", " + q.now().Sub(*rec.EndedAt).Round(time.Second).String() + " ago"
	}
	return fmt.Errorf("%w: lease %s ended before (%s)", ErrFinal, ref, text)
}

// WaitLease waits until a lease is held, or has ended without: the record then says how.
func (q *Queue) WaitLease(ctx context.Context, ref Ref) (job.Record, error) {
	return q.waitRecord(ctx, ref, func(rec *job.Record) bool { return rec.State.Final() || rec.Lease != nil && rec.Lease.HeldAt != nil })
}
