package job

import (
	"encoding/json"
	"time"
)

// Record is the job's life so far: one KV key, written by compare-and-set only, created by the first claim (or the
// first control request). Its compare-and-set is the fence: who loses it steps back and never acknowledges.
type Record struct {
	Version int    `json:"version"`
	JobID   string `json:"job_id"`
	Number  uint64 `json:"number"`
	Index   *int   `json:"index,omitempty"` // of a task
	Project string `json:"project"`
	User    string `json:"user"`
	Name    string `json:"name,omitempty"`

	State      State  `json:"state"`
	Reason     string `json:"reason,omitempty"`      // one word
	ReasonText string `json:"reason_text,omitempty"` // a sentence

	Epoch    int      `json:"epoch"`              // how often queued; 1 at first
	Round    int      `json:"round"`              // 1, then one more per retry by hand
	InRound  int      `json:"in_round,omitempty"` // of a task: the round of its group that queued it, from the second on
	Session  string   `json:"session,omitempty"`  // of the holder, while running
	Machine  string   `json:"machine,omitempty"`
	Devices  []string `json:"devices,omitempty"` // UUIDs, while running
	Progress string   `json:"progress,omitempty"`

	Requirements Requirements `json:"requirements"` // effective: raised after an out-of-memory
	Attempts     []Attempt    `json:"attempts,omitempty"`
	Cancel       *Cancel      `json:"cancel,omitempty"`
	Group        *GroupRecord `json:"group,omitempty"` // on the group's own key
	Lease        *LeaseRecord `json:"lease,omitempty"` // of kind lease, once it has been given

	// Waiting: for its dependencies; it has had no message on a lane yet.
	Waiting bool `json:"waiting,omitempty"`
	// Awaited: others wait for it, so its end wakes them.
	Awaited bool `json:"awaited,omitempty"`
	// Near: where the job would rather run than elsewhere (same_gpu_as).
	Near *Near `json:"near,omitempty"`

	QueuedAt  time.Time  `json:"queued_at"`
	NotBefore *time.Time `json:"not_before,omitempty"` // backoff or begin: the epoch's lane message is due then
	Priority  *int       `json:"priority,omitempty"`   // as changed after the submit
	TimeLimit *Duration  `json:"time_limit,omitempty"` // likewise; 0 is none
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`

	// Run is the last ended attempt's message, kept so that whoever comes after a crash can publish it.
	Run *Run `json:"run,omitempty"`
	// ResultSeq is the sequence of the previous round's result, 0 in the first round: a round's result is stored only
	// as the next one after it, so exactly once.
	ResultSeq uint64 `json:"result_seq,omitempty"`

	// Result is what the round ended with, stored by the same write that ended it, so that whoever comes after a
	// crash can publish it.
	Result *Result `json:"result,omitempty"`

	Extra map[string]json.RawMessage `json:"-"`
}

// GroupRecord is the clerk's cursor through the tasks of a group.
type GroupRecord struct {
	Count int `json:"count"`
	Next  int `json:"next"` // tasks before this position are on a lane or beyond
	// States counts the tasks by state, once the group has ended; those that never had their turn are cancelled.
	States map[State]int `json:"states,omitempty"`
	// Only lists the tasks of a later round, in array syntax; Count and Next are about these. "" is all.
	Only string `json:"only,omitempty"`
	// After is the sequence on the results stream after which the results of a later round come.
	After uint64 `json:"after,omitempty"`
	// Stopped says why no more tasks are started: max_failures was reached.
	Stopped string `json:"stopped,omitempty"`
}

// Cancel is a wish to end the job, and whose.
type Cancel struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// Exit is how a process ended, as data.
type Exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"` // "SIGKILL"
}

// Attempt is one run of the job.
type Attempt struct {
	Attempt   int        `json:"attempt"` // 1 is the first
	Epoch     int        `json:"epoch"`
	Round     int        `json:"round,omitempty"`
	Outcome   Outcome    `json:"outcome,omitempty"` // empty while it runs
	Machine   string     `json:"machine"`
	Session   string     `json:"session,omitempty"`
	Devices   []string   `json:"devices,omitempty"` // UUIDs
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Exit      *Exit      `json:"exit,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Evidence  string     `json:"evidence,omitempty"`

	Steps []StepResult `json:"steps,omitempty"` // of a pipeline, without their telemetry; the result has that
}
