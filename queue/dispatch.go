package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
)

// soonest is the shortest delay the broker's schedules can keep; what is due sooner goes out at once.
const soonest = 250 * time.Millisecond

// laneMessage is what waits on a lane: enough to decide whether the job fits, not the job. Short names: a million of
// them may wait.
type laneMessage struct {
	Version      int              `json:"v"`
	Number       uint64           `json:"n"`
	Index        *int             `json:"i,omitempty"`
	Epoch        int              `json:"e"`
	Attempts     int              `json:"a,omitempty"` // runs there have been
	Priority     int              `json:"p"`
	QueuedAt     time.Time        `json:"q"`
	Requirements job.Requirements `json:"r"`
}

const laneMessageVersion = 1

func (m laneMessage) ref() Ref { return refOf(m.Number, m.Index) }

func decodeLaneMessage(b []byte) (laneMessage, error) {
	var m laneMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("not JSON of ours: %w", err)
	}
	switch {
	case m.Number == 0:
		return m, errors.New("it names no job")
	case m.Version < 1, m.Epoch < 1:
		return m, errors.New("it has no version or no epoch")
	}
	return m, nil
}

// parcel is a lane message with where and when it goes.
type parcel struct {
	lane  job.Lane
	shape job.Shape
	msg   laneMessage
	due   time.Time // zero: now
	open  *parcel   // the same for a lane that is not of one place; nil: it is
}

// parcelFor builds the message for the current epoch of a job from its record, or for a job without one.
func (q *Queue) parcelFor(j *job.Job, ref Ref, rec *job.Record) parcel {
	msg := laneMessage{
		Version: laneMessageVersion, Number: ref.Number, Index: ref.IndexPtr(), Epoch: 1,
		Priority: priorityOf(j, rec), QueuedAt: j.SubmittedAt, Requirements: requirementsOf(j, ref),
	}
	p := parcel{}
	if j.Spec.Begin != nil {
		p.due = *j.Spec.Begin
	}
	if rec != nil {
		msg.Epoch, msg.Attempts, msg.Requirements = rec.Epoch, len(rec.Attempts), rec.Requirements
		msg.QueuedAt = rec.QueuedAt
		if rec.NotBefore != nil {
			p.due = *rec.NotBefore
		}
	}
	var near *job.Near
	if rec != nil {
		near = rec.Near
	}
	msg.Requirements.Why, msg.Requirements.Method = "", "" // the record and the job keep the reasons
	p.place(j.Project, near.Narrow(msg.Requirements), msg)
	if near.Waits() {
		open := p
		open.place(j.Project, msg.Requirements, msg)
		p.open = &open
	}
	return p
}

// place sets the requirements of a message and with them its lane.
func (p *parcel) place(project string, needs job.Requirements, msg laneMessage) {
	msg.Requirements = needs
	p.shape = job.ShapeOf(msg.Requirements)
	p.lane = job.Lane{Band: job.BandOf(msg.Priority), Shape: p.shape.ID, Project: project}
	p.msg = msg
}

// dispatch puts one message on its lane, or on the schedule if it is due later. It may be repeated: within laneWindow
// the broker drops the second one, and later a second one is forgotten by whoever pulls it.
func (q *Queue) dispatch(ctx context.Context, p parcel) error {
	m, err := q.prepare(ctx, p)
	if err != nil {
		return err
	}
	_, err = q.publish(ctx, m)
	return err
}

// prepare makes sure the lane is there and returns the message to publish.
func (q *Queue) prepare(ctx context.Context, p parcel) (*nats.Msg, error) {
	now := q.now()
	later := p.due.After(now.Add(soonest))
	in := time.Duration(0)
	if later {
		in = p.due.Sub(now)
	}
	err := q.ensureLane(ctx, p.lane, p.shape, in)
	if errors.Is(err, ErrTooManyLanes) && p.open != nil {
		return q.prepare(ctx, *p.open) // a preference is not worth a refusal
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(p.msg)
	if err != nil {
		return nil, err
	}
	m := newMsg(laneSubject(p.lane), body)
	if later {
		m.Subject = schedSubject(p.msg.ref(), p.msg.Epoch)
		m.Header.Set(headerSched, "@at "+p.due.UTC().Format(time.RFC3339Nano))
		m.Header.Set(headerTarget, laneSubject(p.lane))
	}
	m.Header.Set(headerMsgID, dispatchID(p.msg.ref(), p.msg.Epoch))
	return m, nil
}

// priorityOf is what the record says, else the spec, else the default.
func priorityOf(j *job.Job, rec *job.Record) int {
	if rec != nil && rec.Priority != nil {
		return *rec.Priority
	}
	return j.Spec.EffectivePriority()
}

// requirementsOf are the job's, or the task's own where tasks differ.
func requirementsOf(j *job.Job, ref Ref) job.Requirements {
	if t, ok := taskOf(j, ref); ok {
		return t.Requirements
	}
	return j.Requirements
}

// taskOf finds a task in its group; ok is false for an index the group does not have.
func taskOf(j *job.Job, ref Ref) (job.Task, bool) {
	if !ref.Task || j.Tasks == nil {
		return job.Task{}, false
	}
	pos, ok := j.Tasks.Position(ref.Index)
	if !ok {
		return job.Task{}, false
	}
	return j.Task(pos)
}

// TaskParams are the parameters of one task of a matrix, nil where it has none.
func TaskParams(j *job.Job, index int) map[string]any {
	t, _ := taskOf(j, TaskRef(0, index))
	return t.Params
}
