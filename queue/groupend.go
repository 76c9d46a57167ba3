package queue

import (
	"context"
	"errors"
	"strconv"

	"github.com/berthq/berth/job"
)

// finalise sees to it that nothing of an ended group is left on lanes. A group that wound up by itself has left nothing;
// of one that was ended from outside, tasks may be there, and some beyond the cursor.
func (k *keeper) finalise(ctx context.Context, rec *job.Record) error {
	if rec.Group.States == nil && rec.State != job.Succeeded {
		why := job.Cancel{By: "berth", At: k.c.q.now().UTC(), Reason: "its group ended " + string(rec.State)}
		if rec.Cancel != nil {
			why = *rec.Cancel
		}
		if err := k.stopTasks(ctx, rec, func(ctx context.Context, ref Ref) error { return k.stopTask(ctx, ref, rec, why) }); err != nil {
			return err
		}
	}
	return k.c.q.publishEnd(ctx, JobRef(k.number), rec, "group")
}

// stopTask ends a task of an ended group. What runs is stopped by a cancel only: a group that has expired lets it end.
func (k *keeper) stopTask(ctx context.Context, ref Ref, group *job.Record, why job.Cancel) error {
	if group.State == job.Expired {
		return k.c.q.endUnclaimed(ctx, ref, ending{state: job.Expired, reason: group.Result.Reason, text: group.Result.Evidence})
	}
	_, err := k.c.q.cancelOne(ctx, ref, why)
	return err
}

// stopTasks does something to each task that has been released and has not ended.
func (k *keeper) stopTasks(ctx context.Context, rec *job.Record, stop func(context.Context, Ref) error) error {
	if err := k.count(ctx, rec); err != nil {
		return err
	}
	for pos := range min(rec.Group.Next+k.limits.reach(), k.list.count()) {
		index, ok := k.list.at(pos)
		if _, over := k.tally.ended[index]; over || !ok {
			continue
		}
		err := stop(ctx, TaskRef(k.number, index))
		if err != nil && !errors.Is(err, ErrFinal) && !errors.Is(err, errRunning) {
			return err
		}
	}
	return nil
}

// stop writes that no more tasks are to be started, and why. What runs goes on: work is not thrown away unasked.
func (k *keeper) stop(ctx context.Context, why string) error {
	_, err := k.c.q.records.change(ctx, JobRef(k.number), func(rec *job.Record) (*job.Record, error) {
		if rec == nil || rec.State.Final() || rec.Group == nil || rec.Group.Stopped != "" {
			return nil, errNoChange
		}
		rec.Group.Stopped = why
		return rec, nil
	})
	return err
}

// windUp ends a group that was cancelled or stopped: first its tasks, then itself, so that its result is the proof that
// nothing of it runs any more.
func (k *keeper) windUp(ctx context.Context, rec *job.Record) (over bool, err error) {
	why := job.Cancel{By: "berth", At: k.c.q.now().UTC(), Reason: rec.Group.Stopped}
	end := func(ctx context.Context, ref Ref) error {
		return k.c.q.endUnclaimed(ctx, ref, ending{state: job.Cancelled, by: &why})
	}
	if rec.Cancel != nil {
		why = *rec.Cancel
		end = func(ctx context.Context, ref Ref) error {
			_, err := k.c.q.cancelOne(ctx, ref, why)
			return err
		}
	}
	if err := k.stopTasks(ctx, rec, end); err != nil {
		return false, err
	}
	if err := k.count(ctx, rec); err != nil {
		return false, err
	}
	for pos := range rec.Group.Next {
		index, _ := k.list.at(pos)
		if _, ended := k.tally.ended[index]; !ended {
			return false, nil
		}
	}
	return true, k.close(ctx, rec)
}

// close ends the group with the counts of its tasks: succeeded if all did, cancelled if that was asked, else failed.
// Tasks that never had their turn count as cancelled.
func (k *keeper) close(ctx context.Context, seen *job.Record) error {
	states, err := k.c.q.TaskStates(ctx, k.j.Project, k.number)
	if err != nil {
		return err
	}
	left := k.j.Tasks.Count
	for _, n := range states {
		left -= n
	}
	if left > 0 {
		states[job.Cancelled] += left
	}
	if err := k.c.q.step("group:close"); err != nil {
		return err
	}
	ref := JobRef(k.number)
	rec, err := k.c.q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil {
			rec = k.c.q.newRecord(k.j, ref)
		}
		if rec.State.Final() || rec.Round != seen.Round {
			return nil, errNoChange
		}
		if rec.Group == nil {
			rec.Group = &job.GroupRecord{Count: k.list.count()}
		}
		result := groupResult(rec, states, k.j.Tasks.Count)
		rec.Group.States, rec.Group.Next = states, k.list.count()
		k.c.q.closeRecord(k.j, ref, rec, result)
		return rec, nil
	})
	if err != nil {
		return err
	}
	return k.c.q.publishEnd(ctx, ref, rec, "group")
}

// groupResult is what a group comes to.
func groupResult(rec *job.Record, states map[job.State]int, count int) job.Result {
	r := job.Result{Outcome: job.OutcomeSucceeded, Reason: stateCounts(states), Tasks: states}
	switch {
	case states[job.Succeeded] == count:
	case rec.Cancel != nil:
		r.Outcome, r.Reason = job.OutcomeCancelled, cancelReason(rec.Cancel)+": "+r.Reason
	case rec.Group.Stopped != "":
		r.Outcome, r.Reason = job.OutcomeFailed, rec.Group.Stopped+": "+r.Reason
	default:
		r.Outcome = job.OutcomeFailed
	}
	return r
}

// cancelGroup asks for the end of a group. One of which nothing has been released ends at once; otherwise its keeper
// cancels what is under way and then the group: its result is the proof.
func (q *Queue) cancelGroup(ctx context.Context, ref Ref, j *job.Job, why job.Cancel) (job.State, error) {
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil {
			rec = q.newRecord(j, ref)
		}
		switch {
		case rec.State.Final():
			return nil, ErrFinal
		case rec.Cancel != nil:
			return nil, errNoChange
		}
		rec.Cancel = &why
		if rec.Group == nil || rec.Group.Next == 0 {
			states := map[job.State]int{job.Cancelled: j.Tasks.Count}
			q.closeRecord(j, ref, rec, job.Result{State: job.Cancelled, Reason: cancelReason(&why), Tasks: states})
		}
		return rec, nil
	})
	if err != nil {
		return "", err
	}
	if err := q.step("cancel:group"); err != nil {
		return "", err
	}
	if err := q.nc.Publish(prefixNotifyGroup+strconv.FormatUint(ref.Number, 10), nil); err != nil {
		return "", err
	}
	if rec.State.Final() {
		return rec.State, q.publishEnd(ctx, ref, rec, "group")
	}
	return job.Running, nil
}
