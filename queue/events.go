package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
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
