package web

import (
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// row is one job of the index, as the list of jobs shows it.
type row struct {
	ID         string     `json:"id"` // number
	Number     uint64     `json:"number"`
	Name       string     `json:"name"`
	Project    string     `json:"project"`
	User       string     `json:"user"`
	State      job.State  `json:"state"`
	Kind       string     `json:"kind,omitempty"`
	GPUs       int        `json:"gpus"`
	Model      string     `json:"model,omitempty"`     // the model the job works on
	GPUModel   string     `json:"gpu_model,omitempty"` // the cards it got
	Monitored  bool       `json:"monitored"`           // there are measurements
	Machine    string     `json:"machine,omitempty"`
	Attempts   int        `json:"attempts"`
	Priority   int        `json:"priority"`
	Reason     string     `json:"reason,omitempty"`
	QueuedAt   time.Time  `json:"queued_at"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	RunSeconds float64    `json:"run_seconds,omitempty"`
	Tasks      *tally     `json:"tasks,omitempty"` // of a group

	Progress *job.Progress `json:"progress,omitempty"` // of one that runs, as its machine says
}

// tally says how far a group has come.
type tally struct {
	Count  int               `json:"count"`
	Ended  int               `json:"ended"`
	States map[job.State]int `json:"states"`
}

const nameMost = 200 // characters of a name that the index keeps; the job's own page has it all

func rowOf(v queue.JobView) *row {
	r := &row{ID: v.Ref.String(), Number: v.Number, Name: v.Name, Project: v.Project, User: v.User, State: v.State, GPUs: v.Needs.GPUs,
		Model: v.Needs.Model, Priority: v.Priority, QueuedAt: v.QueuedAt}
	if v.Job != nil {
		r.Kind = string(v.Job.Spec.Kind)
		if r.Name == "" {
			r.Name = v.Job.Spec.CommandLine()
		}
		if r.Model == "" && v.Job.Spec.Model != nil {
			r.Model = v.Job.Spec.Model.IDOrPath
		}
	}
	if short := []rune(r.Name); len(short) > nameMost {
		r.Name = string(short[:nameMost]) + "…"
	}
	if v.Tasks != nil {
		r.Tasks = &tally{Count: v.Tasks.Count, States: map[job.State]int{}}
	}
	return r
}

// learn takes over what the record says.
func (r *row) learn(rec *job.Record) {
	r.State, r.Reason, r.Machine, r.Attempts = rec.State, rec.Reason, rec.Machine, len(rec.Attempts)
	r.QueuedAt, r.StartedAt, r.EndedAt = rec.QueuedAt, rec.StartedAt, rec.EndedAt
	r.GPUs = rec.Requirements.GPUs
	if rec.Priority != nil {
		r.Priority = *rec.Priority
	}
	r.RunSeconds = 0
	if res := rec.Result; res != nil {
		r.Machine, r.RunSeconds = res.Machine, res.RunSeconds
		if r.Reason == "" {
			r.Reason = res.Reason
		}
		if res.GPUMonitoring != nil && res.GPUMonitoring.SampleCount > 0 {
			r.Monitored = true
		}
		if res.GPUInfo != nil && len(res.GPUInfo.GPUInfo.Details) > 0 {
			r.GPUModel = res.GPUInfo.GPUInfo.Details[0].Name
		}
	}
}

// shown is a copy for the reader, with what a group's tasks say in it and times by our clock.
func (x *index) shown(r *row) row {
	out := *r
	out.StartedAt, out.EndedAt = byOurs(r.StartedAt, x.ahead[r.Machine]), byOurs(r.EndedAt, x.ahead[r.Machine])
	if r.Tasks != nil {
		t := *r.Tasks
		t.States = make(map[job.State]int, len(r.Tasks.States))
		for s, n := range r.Tasks.States {
			t.States[s] = n
		}
		out.Tasks = &t
		if out.State == job.Queued && (t.Ended > 0 || t.States[job.Running] > 0) {
			out.State = job.Running
		}
	}
	return out
}
