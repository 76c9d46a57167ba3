package job

import (
	"encoding/json"
	"time"
)

// Version of every JSON form in this package.
const Version = 1

// Job is one message on the jobs stream: a Spec with who sent it. Its stream sequence is its number. An array or
// matrix is one Job whose tasks are number.index.
type Job struct {
	Version      int          `json:"version"`
	ID           string       `json:"id"` // UUIDv7, also the Msg-Id
	Project      string       `json:"project"`
	User         string       `json:"user"`
	UserClaimed  bool         `json:"user_claimed,omitempty"` // no credential proved it
	SubmittedAt  time.Time    `json:"submitted_at"`
	SubmitHost   string       `json:"submit_host,omitempty"`
	Spec         Spec         `json:"spec"`
	Requirements Requirements `json:"requirements"` // of every task, unless Tasks[i] has its own
	Tasks        *Tasks       `json:"tasks,omitempty"`

	Extra map[string]json.RawMessage `json:"-"` // fields of a newer version, kept
}

// Tasks lists the members of a group without writing each out.
type Tasks struct {
	// Indexes in array syntax: "1-150", "0-9:2", "1,5,7-9". Task indexes are what the user wrote.
	Indexes       string `json:"indexes"`
	Count         int    `json:"count"`
	MaxConcurrent int    `json:"max_concurrent,omitempty"`
	// Params has one entry a task in the order of Indexes, for a matrix; nil for a plain array.
	Params       []map[string]any `json:"params,omitempty"`
	Requirements []Requirements   `json:"requirements,omitempty"` // one a task where they differ
}

// IsGroup reports whether the job has tasks of its own.
func (j Job) IsGroup() bool { return j.Tasks != nil }
