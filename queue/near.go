package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berthq/berth/job"
)

// A job with same_gpu_as is put on the lane of the GPUs on which the job it names ran last, and queued anew, for every
// machine, when it has waited there for NearFor. Where it waits and until when stands in its record, so whoever
// dispatches it again comes to the same lane:
//
//	queued -> record (place, until) -> lane of the place --taken--> it runs there
//	                                                     --until--> record (epoch + 1, no longer bound) -> lane for all

// nameNear replaces the word by which a job names the one whose GPUs it prefers with its number. ErrParent, ErrAmbiguous.
func (q *Queue) nameNear(ctx context.Context, j *job.Job) error {
	word := j.Spec.SameGPUAs
	if word == "" {
		return nil
	}
	refs, err := q.parentsMeant(ctx, j, word)
	if err != nil {
		return fmt.Errorf("same_gpu_as %s: %w", word, err)
	}
	if len(refs) != 1 {
		return fmt.Errorf("same_gpu_as %s: %w: want one job, or one task", word, ErrParent)
	}
	named, err := q.Job(ctx, refs[0].Number)
	if err == nil && named.IsGroup() && !refs[0].Task {
		return fmt.Errorf("same_gpu_as %s: %w: it is a group of many runs; name one task, %s.INDEX", word, ErrParent, refs[0])
	}
	if err != nil && !errors.Is(err, errGarbage) {
		return err
	}
	j.Spec.SameGPUAs = refs[0].String()
	return nil
}

// placeNear is where a job would rather run, as it is known now; nil: nowhere in particular.
func (q *Queue) placeNear(ctx context.Context, j *job.Job, needs job.Requirements) (*job.Near, error) {
	if j.Spec.SameGPUAs == "" || j.IsGroup() {
		return nil, nil
	}
	ref, err := ParseRef(j.Spec.SameGPUAs)
	if err != nil {
		return nil, nil //nolint:nilerr // never checked: a preference for nothing that is known
	}
	rec, _, err := q.records.get(ctx, ref)
	if err != nil || rec == nil || len(rec.Attempts) == 0 {
		return nil, err
	}
	machines, err := q.Machines(ctx)
	if err != nil {
		return nil, err
	}
	last, until := rec.Attempts[len(rec.Attempts)-1], q.now()
	if b := j.Spec.Begin; b != nil && b.After(until) {
		until = *b
	}
	return job.NearTo(ref.String(), last, needs, inService(machines, last.Machine), until.Add(q.opts.NearFor).UTC()), nil
}

// inService lists the GPUs that a machine gives out, to whomever; none of one that drains.
func inService(machines []Machine, name string) []string {
	i := slices.IndexFunc(machines, func(m Machine) bool { return m.Name == name })
	if i < 0 || machines[i].Draining {
		return nil
	}
	var uuids []string
	for _, g := range machines[i].GPUs {
		if g.State != "quarantined" && g.State != "unreadable" {
			uuids = append(uuids, g.UUID)
		}
	}
	return uuids
}

// leavePlace lets a job that was bound to a place and has been there go anywhere, under the next epoch.
func leavePlace(rec *job.Record) bool {
	if !rec.Near.Waits() {
		return false
	}
	rec.Near = rec.Near.Anywhere()
	rec.Epoch++
	return true
}

// remindOfPlace puts a wake-up on the schedule for when a job has waited for its place long enough. If it gets lost the
// janitor lets the job go.
func (q *Queue) remindOfPlace(ctx context.Context, project string, ref Ref, rec *job.Record) error {
	if rec == nil || !rec.Near.Waits() {
		return nil
	}
	body, err := json.Marshal(dueMessage{Due: ref.String(), Place: true})
	if err != nil {
		return err
	}
	at := *rec.Near.Until
	if earliest := q.now().Add(soonest); at.Before(earliest) {
		at = earliest
	}
	m := newMsg(prefixWake+"near."+ref.String(), body)
	m.Header.Set(headerSched, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(headerTarget, prefixDue+project)
	_, err = q.publish(ctx, m)
	return err
}

// settlePlace lets a job go anywhere that has waited for its place long enough and that nobody runs.
func (q *Queue) settlePlace(ctx context.Context, j *job.Job, ref Ref) error {
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil || rec.State != job.Queued || rec.Waiting || !rec.Near.Over(q.now()) {
			return nil, errNoChange
		}
		leavePlace(rec)
		return rec, nil
	})
	if err != nil || rec == nil || rec.State != job.Queued || rec.Waiting {
		return err
	}
	if rec.Near.Waits() {
		return q.remindOfPlace(ctx, j.Project, ref, rec) // it was queued anew meanwhile, to wait again
	}
	if err := q.step("place:dispatch"); err != nil {
		return err
	}
	return q.dispatch(ctx, q.parcelFor(j, ref, rec)) // also after a crash right here: a second one is dropped or forgotten
}
