package queue

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// A job that depends on others waits with a record and without a message on a lane. Who waits for whom stands in a
// bucket, and that somebody waits in the parent's record, so that the parent's end and the child's coming are put in
// order by that record's compare-and-set: either the end sees the mark, or the child sees the end.
//
//	child comes:  record (waiting) -> key per parent -> parents' records marked -> looks at its parents
//	parent ends:  record (ended, marked) -> berth.due message per child -> its result
//	clerk:        berth.due -> looks at the child's parents -> record (no longer waiting) -> lane -> keys gone -> acknowledged
//
// Every step may be repeated. The child is let go by one compare-and-set; a crash after it is made good by whoever gets
// the message next, or by the janitor.

const (
	reasonDependency = "Dependency"
	wholeJob         = "all" // in a key: the parent itself, not one of its tasks
)

func waitKey(parent Ref, child uint64) string {
	index := wholeJob
	if parent.Task {
		index = strconv.Itoa(parent.Index)
	}
	return strconv.FormatUint(parent.Number, 10) + "." + index + "." + strconv.FormatUint(child, 10)
}

// parents are the jobs that a job names, each once. A job can only wait for one that came before it, so there are no
// circles.
func parents(j *job.Job, number uint64) []Ref {
	seen := map[Ref]bool{}
	var all []Ref
	for _, d := range j.Spec.DependsOn {
		for _, name := range d.Jobs {
			ref, err := ParseRef(name)
			if err != nil || ref.Number >= number || seen[ref] {
				continue
			}
			seen[ref] = true
			all = append(all, ref)
		}
	}
	return all
}

// await writes down that a job waits for its parents.
func (q *Queue) await(ctx context.Context, j *job.Job, ref Ref) error {
	for _, parent := range parents(j, ref.Number) {
		if err := q.step("await:key"); err != nil {
			return err
		}
		m := newMsg("$KV."+BucketWaits+"."+waitKey(parent, ref.Number), []byte(ref.String()))
		if _, err := q.publish(ctx, m); err != nil {
			return err
		}
		if err := q.step("await:mark"); err != nil {
			return err
		}
		if err := q.markAwaited(ctx, JobRef(parent.Number)); err != nil {
			return err
		}
	}
	return nil
}

// markAwaited notes in a parent's record that somebody waits for it, or for one of its tasks.
func (q *Queue) markAwaited(ctx context.Context, parent Ref) error {
	pj, err := q.Job(ctx, parent.Number)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errGarbage) {
		return nil // it has ended, or never was: the look at it says so
	}
	if err != nil {
		return err
	}
	_, err = q.records.change(ctx, parent, func(rec *job.Record) (*job.Record, error) {
		switch {
		case rec == nil:
			rec = q.newRecord(pj, parent)
		case rec.Awaited, rec.State.Final():
			return nil, errNoChange
		}
		rec.Awaited = true
		return rec, nil
	})
	return err
}

// wakeWaiting tells, with one durable message each, those who wait for a job that has ended. Tasks of a group are named
// by it too: what has not ended with the group never will.
func (q *Queue) wakeWaiting(ctx context.Context, parent Ref, rec *job.Record) error {
	if parent.Task || !rec.Awaited {
		return nil
	}
	return q.eachWaiting(ctx, parent.Number, func(_ string, child uint64) error {
		return q.wakeChild(ctx, parent, rec, child)
	})
}

// eachWaiting lists who waits for a job or its tasks; index is a task's, or wholeJob.
func (q *Queue) eachWaiting(ctx context.Context, number uint64, see func(index string, child uint64) error) error {
	prefix := "$KV." + BucketWaits + "." + strconv.FormatUint(number, 10) + "."
	type waiter struct {
		index string
		child uint64
	}
	var all []waiter
	err := q.eachLast(ctx, "KV_"+BucketWaits, prefix+">", headersOnly, func(m jetstream.Msg) {
		index, text, _ := strings.Cut(strings.TrimPrefix(m.Subject(), prefix), ".")
		child, err := strconv.ParseUint(text, 10, 64)
		if err == nil && m.Headers().Get(headerKVOp) == "" && m.Headers().Get(headerMarker) == "" {
			all = append(all, waiter{index, child})
		}
	})
	if err != nil {
		return err
	}
	for _, w := range all {
		if err := see(w.index, w.child); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) wakeChild(ctx context.Context, parent Ref, rec *job.Record, child uint64) error {
	if err := q.step("end:wake"); err != nil {
		return err
	}
	body, err := json.Marshal(dueMessage{Due: JobRef(child).String(), By: parent.String()})
	if err != nil {
		return err
	}
	m := newMsg(prefixDue+rec.Project, body)
	m.Header.Set(headerMsgID, "wake."+JobRef(child).String()+"."+parent.attemptToken(max(rec.Round, 1)))
	_, err = q.publish(ctx, m)
	return err
}

// wakeForTasks tells those who wait for single tasks of a group that these have ended.
func (q *Queue) wakeForTasks(ctx context.Context, number uint64, group *job.Record) error {
	if !group.Awaited {
		return nil
	}
	return q.eachWaiting(ctx, number, func(index string, child uint64) error {
		i, err := strconv.Atoi(index)
		if err != nil {
			return nil //nolint:nilerr // it waits for the whole group
		}
		ref := TaskRef(number, i)
		rec, _, err := q.records.get(ctx, ref)
		if err != nil || rec == nil || !rec.State.Final() {
			return err
		}
		return q.wakeChild(ctx, ref, rec, child)
	})
}

// settleWait looks at the parents of a job that waits for them, and lets it go, ends it, or leaves it. by is the parent
// whose end is the reason to look, if there is one.
func (q *Queue) settleWait(ctx context.Context, j *job.Job, ref, by Ref) error {
	rec, _, err := q.records.read(ctx, ref, true)
	if err != nil || rec == nil {
		return err // its clerk has it
	}
	if !rec.Waiting {
		return q.afterWait(ctx, j, ref, rec)
	}
	states, err := q.parentStates(ctx, j, ref.Number, by)
	if err != nil {
		return err
	}
	met, failed := job.Met(j.Spec.DependsOn, func(name string) job.State { return states[name] })
	switch {
	case met:
		if rec, err = q.endWait(ctx, j, ref, rec.Requirements); err != nil {
			return err
		}
	case failed != "" && j.Spec.IfParentFails != job.ParentFailsWait:
		err := q.endUnclaimed(ctx, ref, ending{state: job.Cancelled, reason: reasonDependency, text: failed})
		if err != nil && !errors.Is(err, ErrFinal) {
			return err
		}
		return q.dropWaits(ctx, j, ref)
	default:
		return nil
	}
	return q.afterWait(ctx, j, ref, rec)
}

// endWait lets a job go: the one write that releases it.
func (q *Queue) endWait(ctx context.Context, j *job.Job, ref Ref, needs job.Requirements) (*job.Record, error) {
	near, err := q.placeNear(ctx, j, needs)
	if err != nil {
		return nil, err
	}
	if err := q.step("release:cas"); err != nil {
		return nil, err
	}
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil || !rec.Waiting || rec.State.Final() {
			return nil, errNoChange
		}
		rec.Waiting, rec.QueuedAt = false, q.now().UTC()
		if rec.State == job.Queued {
			rec.Reason, rec.ReasonText, rec.Near = "", "", near
		}
		return rec, nil
	})
	return rec, err
}

// afterWait does what follows from a release: a message on the lane, or the group's keeper is told.
func (q *Queue) afterWait(ctx context.Context, j *job.Job, ref Ref, rec *job.Record) error {
	if err := q.step("release:dispatch"); err != nil {
		return err
	}
	switch {
	case j.IsGroup():
		if err := q.nc.Publish(prefixNotifyGroup+strconv.FormatUint(ref.Number, 10), nil); err != nil {
			return err
		}
	case rec.State == job.Queued && rec.Epoch == 1 && len(rec.Attempts) == 0:
		if err := q.remind(ctx, j, ref.Number, rec); err != nil {
			return err
		}
		if err := q.remindOfPlace(ctx, j.Project, ref, rec); err != nil {
			return err
		}
		err := q.dispatch(ctx, q.parcelFor(j, ref, rec))
		if errors.Is(err, ErrTooManyLanes) {
			err = q.endUnclaimed(ctx, ref, ending{state: job.Dead, reason: "TooManyLanes", text: err.Error()})
		}
		if err != nil && !errors.Is(err, ErrFinal) {
			return err
		}
	}
	return q.dropWaits(ctx, j, ref)
}

// dropWaits takes the keys of a job away that waits no longer; what is left of them only costs a look.
func (q *Queue) dropWaits(ctx context.Context, j *job.Job, ref Ref) error {
	if err := q.step("release:keys"); err != nil {
		return err
	}
	for _, parent := range parents(j, ref.Number) {
		m := newMsg("$KV."+BucketWaits+"."+waitKey(parent, ref.Number), nil)
		m.Header.Set(headerKVOp, "DEL")
		if _, err := q.publish(ctx, m); err != nil {
			return err
		}
	}
	return q.step("release:ack")
}

// parentStates reads how the parents stand, by the words of the spec. What came later than the job, or is not kept any
// more, is missing.
func (q *Queue) parentStates(ctx context.Context, j *job.Job, number uint64, by Ref) (map[string]job.State, error) {
	all := parents(j, number)
	wanted := make([]Ref, 0, 2*len(all))
	for _, ref := range all {
		wanted = append(wanted, ref)
		if ref.Task {
			wanted = append(wanted, JobRef(ref.Number))
		}
	}
	records, err := q.recordsOfMany(ctx, wanted)
	if err != nil {
		return nil, err
	}
	if by != (Ref{}) { // the copy that was asked may lag behind the end that woke us
		rec, _, err := q.records.read(ctx, by, true)
		if err != nil {
			return nil, err
		}
		records[by] = rec
	}
	return q.statesOf(ctx, all, records)
}

// statesOf says how some parents stand, by these records.
func (q *Queue) statesOf(ctx context.Context, all []Ref, records map[Ref]*job.Record) (map[string]job.State, error) {
	states := make(map[string]job.State, len(all))
	for _, ref := range all {
		state, err := q.parentState(ctx, ref, records)
		if err != nil {
			return nil, err
		}
		states[ref.String()] = state
	}
	return states, nil
}

func (q *Queue) parentState(ctx context.Context, ref Ref, records map[Ref]*job.Record) (job.State, error) {
	rec, group := records[ref], records[JobRef(ref.Number)]
	if ref.Task && group != nil && group.State.Final() && (rec == nil || !rec.State.Final() && rec.State != job.Running) {
		return untouched(group.State), nil
	}
	if rec != nil {
		return rec.State, nil
	}
	_, err := q.Job(ctx, ref.Number)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", nil
	case err != nil && !errors.Is(err, errGarbage):
		return "", err
	}
	return job.Queued, nil
}

// waitingText says what a job waits for.
func waitingText(s job.Spec) string {
	parts := make([]string, len(s.DependsOn))
	for i, d := range s.DependsOn {
		parts[i] = d.Text()
	}
	const shown = 5
	if more := len(parts) - shown; more > 0 {
		parts = append(parts[:shown], strconv.Itoa(more)+" more")
	}
	return "it waits until " + strings.Join(parts, " and ")
}
