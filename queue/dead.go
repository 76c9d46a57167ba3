package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// DeadLetter is a job or task the system could not run, until somebody has dealt with it: Retry, or Drop. It is kept
// before the result is published, so no dead job is without one.
type DeadLetter struct {
	Version  int       `json:"version"`
	Job      string    `json:"job"` // number[.index]
	Round    int       `json:"round"`
	Name     string    `json:"name,omitempty"`
	Project  string    `json:"project"`
	User     string    `json:"user"`
	Reason   string    `json:"reason"`
	Evidence string    `json:"evidence,omitempty"`
	Machine  string    `json:"machine,omitempty"` // of the last attempt
	Attempts int       `json:"attempts"`
	At       time.Time `json:"at"`
}

// Ref names the job.
func (d DeadLetter) Ref() Ref {
	ref, _ := ParseRef(d.Job) // it was written from one
	return ref
}

const headerRound = "Berth-Round"

func deadSubject(ref Ref) string { return "$KV." + BucketDead + "." + ref.String() }

// bury keeps the dead letter of a round, once: it does not come back after it was dealt with.
func (q *Queue) bury(ctx context.Context, ref Ref, r *job.Result) error {
	if r.State != job.Dead {
		return nil
	}
	d := DeadLetter{
		Version: job.Version, Job: ref.String(), Round: r.Round, Name: r.Name, Project: r.Project, User: r.User,
		Reason: r.Reason, Evidence: r.Evidence, Machine: r.Machine, Attempts: len(r.Attempts), At: q.now().UTC(),
	}
	if r.EndedAt != nil {
		d.At = *r.EndedAt
	}
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := q.step("dead:letter"); err != nil {
		return err
	}
	return q.putDead(ctx, ref, r.Round, body)
}

// putDead writes a round's letter, or (no body) that the letter was dealt with. Whatever was written for that round or
// a later one stands.
func (q *Queue) putDead(ctx context.Context, ref Ref, round int, body []byte) error {
	for {
		rev, there, gone, err := q.deadRound(ctx, ref)
		if err != nil {
			return err
		}
		if there > round || there == round && (gone || len(body) > 0) || rev == 0 && len(body) == 0 {
			return nil
		}
		m := newMsg(deadSubject(ref), body)
		m.Header.Set(headerRound, strconv.Itoa(round))
		if len(body) == 0 {
			m.Header.Set(headerKVOp, "DEL")
		}
		_, err = q.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(rev))
		if isWrongLast(err) {
			continue // ours, whose answer got lost, or somebody else's
		}
		return err
	}
}

func (q *Queue) deadRound(ctx context.Context, ref Ref) (rev uint64, round int, gone bool, err error) {
	var s *stored
	err = retry(ctx, func() (err error) {
		s, err = q.getLast(ctx, "KV_"+BucketDead, deadSubject(ref), true)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return 0, 0, false, nil
	}
	if err != nil {
		return 0, 0, false, fmt.Errorf("dead letter of %s: %w", ref, err)
	}
	round, _ = strconv.Atoi(s.Header.Get(headerRound)) // 0 is before the first
	return s.Seq, round, isMarker(s), nil
}

// unbury takes the letter of a dead job away that begins its next round. was is how the round before ended; who does not
// know, because somebody else began the next one and may have got no further, says Dead.
func (q *Queue) unbury(ctx context.Context, ref Ref, was job.State, next int) error {
	if was != job.Dead {
		return nil
	}
	return q.putDead(ctx, ref, next-1, nil)
}

// Dead lists the dead letters of a project ("" = all), oldest first.
func (q *Queue) Dead(ctx context.Context, project string) ([]DeadLetter, error) {
	var all []DeadLetter
	err := q.eachKey(ctx, BucketDead, func(_ string, value []byte) {
		var d DeadLetter
		if json.Unmarshal(value, &d) == nil && (project == "" || d.Project == project) {
			all = append(all, d)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	slices.SortFunc(all, func(a, b DeadLetter) int { return a.At.Compare(b.At) })
	return all, nil
}

// ErrNoLetter says that the job has no dead letter (any more).
var ErrNoLetter = errors.New("it is no dead letter")

// DropDead says that a dead letter has been dealt with. The job, its record and its result stay as they are.
func (q *Queue) DropDead(ctx context.Context, ref Ref, by, reason string) error {
	rev, round, gone, err := q.deadRound(ctx, ref)
	if err != nil {
		return err
	}
	if rev == 0 || gone {
		return fmt.Errorf("job %s: %w", ref, ErrNoLetter)
	}
	project, err := q.projectOf(ctx, ref)
	if err != nil {
		return err
	}
	if err := q.step("drop:letter"); err != nil {
		return err
	}
	if err := q.putDead(ctx, ref, round, nil); err != nil {
		return err
	}
	if err := q.step("drop:note"); err != nil {
		return err
	}
	q.noteDeed(ctx, Event{Kind: EventDrop, Project: project, By: by, Job: ref.String(), Text: reason})
	return nil
}
