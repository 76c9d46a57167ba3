package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthq/berth/job"
)

const (
	// reasonTooOld is of a job that waited for longer than jobs are kept.
	reasonTooOld = "too_old"

	// oldLook is how many of the oldest jobs are read at a time.
	oldLook = 64
)

// sweep ends what still waits a day before the jobs stream drops it (of 90, where an operator has not changed that): then
// all of it is still known, and everything of it gets a result and a last day. Left to itself its record would stay for
// ever, and its message on a lane, about a job that is gone. What runs goes on: its worker has all it needs.
func (jan *janitor) sweep(ctx context.Context, did *Tidied) error {
	s, err := jan.q.js.Stream(ctx, StreamJobs)
	if err != nil {
		return fmt.Errorf("the jobs stream: %w", err)
	}
	kept := s.CachedInfo().Config.MaxAge
	if kept <= 0 {
		return nil
	}
	waits := kept - min(day, kept/2)
	old := jan.q.now().Add(-waits)
	for from := jan.low; ; {
		batch, err := jan.q.batch(ctx, StreamJobs, map[string]any{"seq": from, "batch": oldLook, "next_by_subj": prefixJobs + "*.*"})
		if err != nil {
			return err
		}
		for _, s := range batch {
			if !s.Time.Before(old) {
				return nil
			}
			from = s.Seq + 1
			if jan.verified.has(s.Seq) {
				continue
			}
			if err := jan.endOld(ctx, s, waits, did); err != nil {
				return err
			}
		}
		if len(batch) < oldLook {
			return nil
		}
	}
}

// endOld ends a job that has waited for too long. A group of which some has begun is left to its end.
func (jan *janitor) endOld(ctx context.Context, s stored, waits time.Duration, did *Tidied) error {
	ref := JobRef(s.Seq)
	rec, _, err := jan.q.records.get(ctx, ref)
	if err != nil {
		return err
	}
	if rec != nil && rec.Group != nil && rec.Group.Next > 0 {
		return nil
	}
	err = jan.q.endUnclaimed(ctx, ref, ending{
		state: job.Expired, reason: reasonTooOld,
		text: fmt.Sprintf("it waited for %d days, and jobs are not kept for longer", int(waits/day)),
	})
	switch {
	case errors.Is(err, errRunning), errors.Is(err, ErrFinal):
		return nil
	case err != nil:
		return err
	}
	did.TooOld++
	return nil
}
