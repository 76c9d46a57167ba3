package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthq/berth/job"
)

// cancelJob writes the wish to end a job. A waiting job is cancelled at once, with a result; the holder of a running one
// is told, and its Finish is the proof; of a group, what is under way is cancelled by its keeper.
func (q *Queue) cancelJob(ctx context.Context, ref Ref, why job.Cancel) (job.State, error) {
	j, err := q.Job(ctx, ref.Number)
	if err != nil {
		return "", err
	}
	if err := checkMember(j, ref); err != nil {
		return "", err
	}
	cancel := q.cancelOne
	if j.IsGroup() && !ref.Task {
		cancel = func(ctx context.Context, ref Ref, why job.Cancel) (job.State, error) {
			return q.cancelGroup(ctx, ref, j, why)
		}
	}
	state, err := cancel(ctx, ref, why)
	if err != nil {
		return state, err
	}
	q.noteDeed(ctx, Event{Kind: "cancel", Project: j.Project, By: why.By, Job: ref.String(), Text: why.Reason})
	return state, err
}

// checkMember says whether the job has such a task.
func checkMember(j *job.Job, ref Ref) error {
	if !ref.Task {
		return nil
	}
	if j.Tasks == nil {
		return fmt.Errorf("%w: %d is not a group, it has no task %d", ErrNotFound, ref.Number, ref.Index)
	}
	if _, ok := taskOf(j, ref); !ok {
		return fmt.Errorf("%w: the group %d has no task %d", ErrNotFound, ref.Number, ref.Index)
	}
	return nil
}

// cancelOne cancels one job or task: now if nobody runs it, else by telling its holder. It returns the state the record
// has then.
func (q *Queue) cancelOne(ctx context.Context, ref Ref, why job.Cancel) (job.State, error) {
	for {
		err := q.endUnclaimed(ctx, ref, ending{state: job.Cancelled, by: &why})
		if err == nil {
			return job.Cancelled, nil
		}
		if !errors.Is(err, errRunning) {
			return "", err
		}
		session, err := q.wishCancel(ctx, ref, why)
		if errors.Is(err, errNoHolder) {
			continue // it has been returned meanwhile
		}
		if err != nil {
			return "", err
		}
		return job.Running, q.notifyHolder(session, ref)
	}
}

// withdraw cancels one job or task if nobody runs it.
func (q *Queue) withdraw(ctx context.Context, ref Ref, why job.Cancel) (job.State, error) {
	err := q.endUnclaimed(ctx, ref, ending{state: job.Cancelled, by: &why})
	if errors.Is(err, errRunning) {
		return job.Running, nil
	}
	return job.Cancelled, err
}

var errNoHolder = errors.New("nobody runs it")

func (q *Queue) wishCancel(ctx context.Context, ref Ref, why job.Cancel) (session string, err error) {
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		switch {
		case rec == nil, !rec.State.Final() && rec.State != job.Running:
			return nil, errNoHolder
		case rec.State.Final():
			return nil, ErrFinal
		case rec.Cancel != nil:
			return nil, errNoChange
		}
		rec.Cancel = &why
		return rec, nil
	})
	if err != nil {
		return "", err
	}
	return rec.Session, nil
}

// noteDeed keeps an event without making its failure the deed's.
func (q *Queue) noteDeed(ctx context.Context, e Event) {
	if err := q.Note(ctx, e); err != nil {
		q.log.Warn("event_not_kept", "kind", e.Kind, "job", e.Job, "err", err)
	}
}
