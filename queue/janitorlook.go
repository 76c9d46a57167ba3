package queue

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berthq/berth/job"
)

// look compares a batch of jobs with their records and the lanes.
func (jan *janitor) look(ctx context.Context, scan laneScan, batch []stored, did *Tidied) ([]suspect, error) {
	jobs := make(map[Ref]*job.Job, len(batch)) // nil: not one of ours
	var refs []Ref
	for _, s := range batch {
		did.Jobs++
		ref := JobRef(s.Seq)
		j, err := decodeJob(&s)
		if err != nil {
			j = nil
		} else if isTimeless(j) {
			jan.timeless.add(s.Seq)
		}
		if jan.passes(scan, s.Seq) {
			continue
		}
		jobs[ref], refs = j, append(refs, ref)
	}
	records, err := jan.q.recordsOf(ctx, refs)
	if err != nil {
		return nil, err
	}
	asleep, err := jan.asleep(ctx, refs, jobs, records)
	if err != nil {
		return nil, err
	}
	var suspects []suspect
	for _, ref := range refs {
		rec := records[ref]
		if asleep[ref] || jobs[ref] == nil && (rec == nil || !rec.State.Final()) {
			continue // the clerk has it, if it is not a job
		}
		some, err := jan.lookAt(ctx, scan, ref, jobs[ref], rec, did)
		if err != nil {
			return suspects, err
		}
		suspects = append(suspects, some...)
	}
	return suspects, nil
}

// isTimeless reports whether a job has nothing but its message to be looked after.
func isTimeless(j *job.Job) bool {
	return !j.IsGroup() && j.Spec.Deadline == nil && j.Spec.WaitTimeout == 0 && j.Spec.SameGPUAs == ""
}

// lookAt compares one job, or a group with its tasks.
func (jan *janitor) lookAt(ctx context.Context, scan laneScan, ref Ref, j *job.Job, rec *job.Record, did *Tidied) ([]suspect, error) {
	switch {
	case rec != nil && rec.State.Final():
		return nil, jan.verify(ctx, ref, rec, did)
	case !ref.Task && isOverdue(j, rec, jan.q.now()):
		_, err := jan.q.expire(ctx, ref, j, rec)
		return nil, err
	case rec != nil && rec.Waiting && !ref.Task:
		err := errors.Join(jan.q.await(ctx, j, ref), jan.q.settleWait(ctx, j, ref, Ref{}))
		if err == nil {
			jan.awaiting.add(ref.Number)
		}
		return nil, err
	case j.IsGroup() && !ref.Task:
		return jan.lookAtTasks(ctx, scan, ref.Number, j, rec, did)
	case rec == nil && !ref.Task && entersWaiting(j):
		_, _, err := jan.q.enter(ctx, j, ref.Number)
		return nil, err
	case rec != nil && rec.State == job.Queued && rec.Near.Over(jan.q.now()):
		return nil, jan.q.settlePlace(ctx, j, ref)
	case rec == nil:
		if scan.has(ref, 1) {
			return nil, nil
		}
		return []suspect{{ref, j, 0}}, nil
	case scan.has(ref, rec.Epoch), rec.State == job.Held:
		return nil, nil
	case rec.State == job.Running:
		err := jan.q.takeFromDead(ctx, ref, rec)
		if errors.Is(err, ErrHeld) {
			return nil, nil
		}
		did.Lost++
		return []suspect{{ref, j, rec.Epoch}}, err
	}
	return []suspect{{ref, j, rec.Epoch}}, nil
}

func isOverdue(j *job.Job, rec *job.Record, now time.Time) bool {
	_, _, yes := overdue(j, rec, now)
	return yes && (rec == nil || rec.State != job.Running)
}

// lookAtTasks compares the tasks of a group that have been put on lanes.
func (jan *janitor) lookAtTasks(ctx context.Context, scan laneScan, number uint64, j *job.Job, rec *job.Record, did *Tidied) ([]suspect, error) {
	if rec == nil || rec.Group == nil {
		return nil, nil // its keeper has not begun
	}
	var suspects []suspect
	list := tasksOfRound(j, rec)
	low, open := jan.tasksLow[number], false
	for from := low; from < rec.Group.Next; from += listWindow {
		var refs []Ref
		for pos := from; pos < min(from+listWindow, rec.Group.Next); pos++ {
			if index, ok := list.At(pos); ok {
				refs = append(refs, TaskRef(number, index))
			}
		}
		records, err := jan.q.recordsOf(ctx, refs)
		if err != nil {
			return suspects, err
		}
		for i, ref := range refs {
			if _, ok := jan.tasks[ref]; !ok {
				some, err := jan.lookAt(ctx, scan, ref, j, records[ref], did)
				if err != nil {
					return suspects, err
				}
				suspects = append(suspects, some...)
			}
			if _, ok := jan.tasks[ref]; ok && !open {
				low = from + i + 1
			} else {
				open = true
			}
		}
	}
	jan.tasksLow[number] = low
	return suspects, nil
}

// verify makes sure that the result of an ended job is out.
func (jan *janitor) verify(ctx context.Context, ref Ref, rec *job.Record, did *Tidied) error {
	if rec.Result == nil {
		jan.ended(ref)
		return nil
	}
	s, err := jan.q.getLast(ctx, StreamResults, resultSubject(rec.Result.Project, ref), true)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	round := 0
	if err == nil {
		var r struct{ Round int }
		if json.Unmarshal(s.Data, &r) == nil {
			round = r.Round
		}
	}
	if round < rec.Result.Round {
		if err := jan.q.publishEnd(ctx, ref, rec, "janitor"); err != nil {
			return err
		}
		did.Published++
	}
	jan.ended(ref)
	return nil
}

func (jan *janitor) ended(ref Ref) {
	if ref.Task {
		jan.tasks[ref] = struct{}{}
		return
	}
	jan.verified.add(ref.Number)
}

// asleep lists the jobs that wait for others, have been written down as such by this janitor, and whose parents have not
// come any further: thousands may wait for a long time, and to look after each in turn costs the broker requests.
func (jan *janitor) asleep(ctx context.Context, refs []Ref, jobs map[Ref]*job.Job, records map[Ref]*job.Record) (map[Ref]bool, error) {
	var waiting []Ref
	wanted := map[Ref]struct{}{}
	now := jan.q.now()
	for _, ref := range refs {
		j, rec := jobs[ref], records[ref]
		if j == nil || rec == nil || !rec.Waiting || rec.State.Final() || !jan.awaiting.has(ref.Number) || isOverdue(j, rec, now) {
			continue
		}
		waiting = append(waiting, ref)
		for _, parent := range parents(j, ref.Number) {
			wanted[parent] = struct{}{}
			wanted[JobRef(parent.Number)] = struct{}{}
		}
	}
	known, err := jan.q.recordsOfMany(ctx, slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return nil, err
	}
	asleep := make(map[Ref]bool, len(waiting))
	for _, ref := range waiting {
		j := jobs[ref]
		states, err := jan.q.statesOf(ctx, parents(j, ref.Number), known)
		if err != nil {
			return nil, err
		}
		met, failed := job.Met(j.Spec.DependsOn, func(name string) job.State { return states[name] })
		asleep[ref] = !met && (failed == "" || j.Spec.IfParentFails == job.ParentFailsWait)
	}
	return asleep, nil
}
