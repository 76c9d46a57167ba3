package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/berthq/berth/job"
)

// Event is one line of the log of who did what.
type Event struct {
	At      time.Time         `json:"at"`
	Kind    string            `json:"kind"` // cancel, drain, quarantine, ...: a subject token
	Project string            `json:"project"`
	By      string            `json:"by"`
	Job     string            `json:"job,omitempty"`
	Machine string            `json:"machine,omitempty"`
	Text    string            `json:"text,omitempty"`
	Facts   map[string]string `json:"facts,omitempty"`
}

// Note stores an event. Whoever notes one has done the deed already, so a failure is for the log, not for the caller's
// caller.
func (q *Queue) Note(ctx context.Context, e Event) error {
	if e.At.IsZero() {
		e.At = q.now().UTC()
	}
	if e.Project == "" {
		e.Project = "_" // of no project: a machine, the fleet
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Kind, err)
	}
	_, err = q.publish(ctx, newMsg(prefixEvents+token(e.Kind)+"."+token(e.Project), body))
	return err
}

// The kinds of events. A newer Berth may write others: whoever reads them lets those pass.
const (
	EventCancel     = verbCancel     // of a job, task or group
	EventHold       = verbHold       // of a job that waits
	EventRelease    = verbRelease    // of one that was held
	EventSet        = verbSet        // of a priority or a time limit
	EventRetry      = verbRetry      // one more round
	EventDrop       = "drop"         // of a dead letter
	EventLease      = LeaseEvent     // taken, and given back
	EventDrain      = verbDrain      // of a machine
	EventUndrain    = verbUndrain    // of a machine
	EventQuarantine = verbQuarantine // of a GPU, by a person or by its worker
	EventRestore    = verbRestore    // of a GPU, by a person or by its worker
	EventProbe      = verbProbe      // of a GPU in quarantine
	EventProject    = "project"      // its settings
)

// EventKinds are all that this version writes.
func EventKinds() []string {
	return []string{EventCancel, EventHold, EventRelease, EventSet, EventRetry, EventDrop, EventLease, EventDrain, EventUndrain,
		EventQuarantine, EventRestore, EventProbe, EventProject}
}

// EventSchema is the JSON Schema of the messages on berth.events.>, made from [Event].
func EventSchema() map[string]any {
	schema := job.MessageSchema("Berth event", "One line of the log of who did what.", reflect.TypeFor[Event](), map[string]string{
		"at":      "when it was done",
		"kind":    "what was done; a newer Berth may write other kinds",
		"project": "whose job or lease, or which project; _ for machines and GPUs",
		"by":      "the user; worker for what a worker did by itself",
		"job":     "a number such as 1842, or of a task 1842.17",
		"text":    "the reason that was given, or what was found",
		"facts":   "such as gpu (UUID) and index of a GPU",
	})
	schema["properties"].(map[string]any)["kind"].(map[string]any)["examples"] = EventKinds()
	return schema
}
