package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// JobView is one job, task or group as people see it.
type JobView struct {
	Ref         Ref              `json:"-"`
	Number      uint64           `json:"number"`
	Index       *int             `json:"index,omitempty"`
	ID          string           `json:"job_id"`
	Name        string           `json:"name,omitempty"`
	Project     string           `json:"project"`
	User        string           `json:"user"`
	UserClaimed bool             `json:"user_claimed,omitempty"`
	State       job.State        `json:"state"`
	Reason      string           `json:"reason,omitempty"`
	ReasonText  string           `json:"reason_text,omitempty"`
	Machine     string           `json:"machine,omitempty"`
	Devices     []string         `json:"devices,omitempty"`
	Attempts    int              `json:"attempts"`
	Priority    int              `json:"priority"`
	TimeLimit   job.Duration     `json:"time_limit,omitempty"` // in force now
	QueuedAt    time.Time        `json:"queued_at"`
	StartedAt   *time.Time       `json:"started_at,omitempty"`
	EndedAt     *time.Time       `json:"ended_at,omitempty"`
	Exit        *job.Exit        `json:"exit,omitempty"`
	Needs       job.Requirements `json:"requirements"`
	Tasks       *TaskCounts      `json:"tasks,omitempty"`    // of a group
	Progress    *job.Progress    `json:"progress,omitempty"` // of a running one, see [Queue.AddProgress]

	Job    *job.Job    `json:"-"`
	Record *job.Record `json:"-"` // nil: never claimed
}

// TaskCounts say how far a group has come.
type TaskCounts struct {
	Count    int `json:"count"`
	Released int `json:"released"` // put on lanes so far
	Ended    int `json:"ended"`
	// States counts the ended ones; it is there once the group has ended.
	States map[job.State]int `json:"states,omitempty"`
}

func viewOf(j *job.Job, ref Ref, rec *job.Record) JobView {
	v := JobView{
		Ref: ref, Number: ref.Number, Index: ref.IndexPtr(), ID: j.ID, Name: j.Spec.Name, Project: j.Project, User: j.User,
		UserClaimed: j.UserClaimed, State: job.Queued, Priority: priorityOf(j, rec), QueuedAt: j.SubmittedAt,
		Needs: requirementsOf(j, ref), TimeLimit: effectiveLimit(j, rec, nil), Job: j, Record: rec,
	}
	if j.IsGroup() && !ref.Task {
		v.Tasks = &TaskCounts{Count: j.Tasks.Count}
	}
	if rec == nil {
		return v
	}
	v.State, v.Reason, v.ReasonText, v.Machine, v.Devices = rec.State, rec.Reason, rec.ReasonText, rec.Machine, rec.Devices
	v.Attempts, v.QueuedAt, v.StartedAt, v.EndedAt, v.Needs = len(rec.Attempts), rec.QueuedAt, rec.StartedAt, rec.EndedAt, rec.Requirements
	if rec.Result != nil {
		v.Exit, v.Machine = rec.Result.Exit, rec.Result.Machine
	}
	if v.Tasks != nil && rec.Group != nil {
		v.Tasks.Released, v.Tasks.States = j.Tasks.Count-tasksOfRound(j, rec).Count+rec.Group.Next, rec.Group.States
	}
	return v
}

// Asks are the requirements of its message on a lane: for a while those of the place it would rather have.
func (v JobView) Asks() job.Requirements {
	if v.Record == nil {
		return v.Needs
	}
	return v.Record.Near.Narrow(v.Needs)
}

// Show reads one job, task or group. ErrNotFound: there is none.
func (q *Queue) Show(ctx context.Context, ref Ref) (JobView, error) {
	j, err := q.Job(ctx, ref.Number)
	if errors.Is(err, errGarbage) {
		return q.showGarbage(ctx, ref)
	}
	if err != nil {
		return JobView{}, err
	}
	if err := checkMember(j, ref); err != nil {
		return JobView{}, err
	}
	rec, _, err := q.records.get(ctx, ref)
	if err != nil {
		return JobView{}, err
	}
	v := viewOf(j, ref, rec)
	if ref.Task {
		return q.inGroup(ctx, v)
	}
	if v.Tasks != nil {
		if v.Tasks.Ended, err = q.countEnded(ctx, j, ref.Number, rec); err != nil {
			return v, err
		}
		v.State = groupState(v)
	}
	return v, nil
}

// groupState calls a group running while some of its tasks have been put on lanes and not all have ended.
func groupState(v JobView) job.State {
	if v.State == job.Queued && v.Tasks.Ended > 0 {
		return job.Running
	}
	return v.State
}

// inGroup adds what a task's group says about it.
func (q *Queue) inGroup(ctx context.Context, v JobView) (JobView, error) {
	group, _, err := q.records.get(ctx, JobRef(v.Number))
	if err != nil || group == nil {
		return v, err
	}
	return withGroup(v, group), nil
}

// withGroup adds what a task's group says: a time limit set for all of it, and that it was ended before the task's turn.
func withGroup(v JobView, group *job.Record) JobView {
	v.TimeLimit = effectiveLimit(v.Job, v.Record, group.TimeLimit)
	if v.Record == nil && group.State.Final() {
		v.State, v.ReasonText, v.EndedAt = untouched(group.State), "its group ended before its turn came", group.EndedAt
	}
	return v
}

// untouched is the state of a task whose turn never came: of a group that failed, the task did not.
func untouched(group job.State) job.State {
	if group == job.Expired || group == job.Dead {
		return group
	}
	return job.Cancelled
}

// showGarbage shows a message that is no job by what its record says.
func (q *Queue) showGarbage(ctx context.Context, ref Ref) (JobView, error) {
	rec, _, err := q.records.get(ctx, ref)
	if err != nil {
		return JobView{}, err
	}
	s, err := q.getSeq(ctx, ref.Number)
	if err != nil {
		return JobView{}, err
	}
	j := &job.Job{ID: s.Header.Get(headerMsgID), SubmittedAt: s.Time}
	j.Project, j.User, _ = parseJobSubject(s.Subject)
	return viewOf(j, ref, rec), nil
}

// Counts are the figures of the whole queue, without reading a single job.
type Counts struct {
	Jobs     uint64 `json:"jobs"`     // submitted and still kept
	Queued   uint64 `json:"queued"`   // waiting for a lane or on one, those that run not counted; tasks not released yet neither
	Delayed  uint64 `json:"delayed"`  // waiting for a time
	Running  uint64 `json:"running"`  // by what the machines say
	Finished uint64 `json:"finished"` // results kept
	Machines int    `json:"machines"`
}

// Counts reads the figures: a handful of requests, however many jobs there are.
func (q *Queue) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	jobs, err := q.streamState(ctx, StreamJobs, "")
	if err != nil {
		return c, err
	}
	lanes, err := q.streamState(ctx, StreamLanes, "")
	if err != nil {
		return c, err
	}
	results, err := q.streamState(ctx, StreamResults, "")
	if err != nil {
		return c, err
	}
	delayed, err := q.countSubjects(ctx, StreamLanes, prefixSched+">")
	if err != nil {
		return c, err
	}
	machines, err := q.Machines(ctx)
	if err != nil {
		return c, err
	}
	for _, m := range machines {
		c.Running += uint64(len(m.Running))
	}
	c.Jobs, c.Delayed, c.Finished, c.Machines = jobs.Msgs, uint64(delayed), results.NumSubjects, len(machines)
	if waiting := lanes.Msgs - min(lanes.Msgs, c.Delayed); waiting > c.Running {
		c.Queued = waiting - c.Running
	}
	undispatched, err := q.undispatched(ctx)
	c.Queued += undispatched
	return c, err
}

func (q *Queue) streamState(ctx context.Context, stream, filter string) (jetstream.StreamState, error) {
	s, err := q.js.Stream(ctx, stream)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("%s: %w", stream, streamError(err))
	}
	info := s.CachedInfo()
	if filter != "" {
		if info, err = s.Info(ctx, jetstream.WithSubjectFilter(filter)); err != nil {
			return jetstream.StreamState{}, fmt.Errorf("%s: %w", stream, err)
		}
	}
	info.State.FirstSeq = max(info.State.FirstSeq, 1) // 0 in a stream that never had a message
	return info.State, nil
}

// batch reads up to n messages of a stream from a sequence on, of a subject filter, or the last ones of many subjects,
// in one request.
func (q *Queue) batch(ctx context.Context, stream string, request map[string]any) ([]stored, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	inbox := q.nc.NewInbox()
	sub, err := q.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	if err := q.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return nil, err
	}
	try, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	var all []stored
	for {
		m, err := sub.NextMsgWithContext(try)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", stream, err)
		}
		if done, err := endOfBatch(m); done {
			return all, err
		}
		s, err := storedFromDirect(m)
		if err != nil {
			return nil, err
		}
		all = append(all, *s)
	}
}

func endOfBatch(m *nats.Msg) (bool, error) {
	switch status := m.Header.Get(headerStatus); status {
	case "":
		return false, nil
	case "204", "404":
		return true, nil
	default:
		code, _ := strconv.Atoi(status)
		return true, &jetstream.APIError{Code: code, Description: m.Header.Get("Description")}
	}
}
