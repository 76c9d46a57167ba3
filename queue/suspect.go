package queue

import (
	"context"

	"github.com/berthq/berth/job"
)

// suspect is a job that should have a message on a lane and seems to have none.
type suspect struct {
	ref   Ref
	j     *job.Job
	epoch int // of its record, 0 for none
}

// putBack gives a suspect a message of the next epoch, if after a moment and a second look it still has none. Should
// the old message turn up after all, it is forgotten.
func (jan *janitor) putBack(ctx context.Context, suspects []suspect, did *Tidied) error {
	if len(suspects) == 0 {
		return nil
	}
	if err := sleep(ctx, tidySettle); err != nil {
		return err
	}
	jan.rested = tidySettle
	scan, err := jan.q.scanLanes(ctx)
	if err != nil {
		return err
	}
	for _, s := range suspects {
		if scan.has(s.ref, max(s.epoch, 1)) {
			continue
		}
		rec, changed, err := jan.nextEpoch(ctx, s)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		if err := jan.q.dispatch(ctx, jan.q.parcelFor(s.j, s.ref, rec)); err != nil {
			return err
		}
		did.Requeued++
	}
	return nil
}

func (jan *janitor) nextEpoch(ctx context.Context, s suspect) (rec *job.Record, changed bool, err error) {
	rec, err = jan.q.records.change(ctx, s.ref, func(rec *job.Record) (*job.Record, error) {
		changed = false
		switch {
		case rec == nil && s.epoch == 0:
			rec = jan.q.newRecord(s.j, s.ref)
		case rec == nil, rec.State != job.Queued, rec.Epoch != s.epoch:
			return nil, errNoChange // it has moved by itself
		}
		rec.Epoch++
		changed = true
		return rec, nil
	})
	return rec, changed, err
}
