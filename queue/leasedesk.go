package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/job"
)

// What a worker can be asked about its GPUs.
const (
	askHeld = "held"
	askRoom = "room"
)

// HeldLease is one lease as its worker knows it.
type HeldLease struct {
	Number  uint64          `json:"number"`
	Name    string          `json:"name,omitempty"`
	Project string          `json:"project"`
	User    string          `json:"user"`
	Machine string          `json:"machine"`
	GPUs    []job.LeasedGPU `json:"gpus"`
	Since   time.Time       `json:"since"`
	Until   *time.Time      `json:"until,omitempty"`
	Process *job.Process    `json:"process,omitempty"` // it ends with it
}

// Room says whether a machine could give GPUs now.
type Room struct {
	OK    bool   `json:"ok"`
	Never bool   `json:"never,omitempty"` // not even with everything free
	Text  string `json:"text,omitempty"`  // why not
}

// LeaseDesk is what a worker answers about its GPUs. Its functions may be called several at a time.
type LeaseDesk struct {
	Machine string
	Held    func() []HeldLease
	Room    func(ctx context.Context, req job.Requirements) Room
}

// roomQuestion is the body of a question about room.
type roomQuestion struct {
	Requirements job.Requirements `json:"requirements"`
}

// deskAnswer is what comes back.
type deskAnswer struct {
	Held  []HeldLease `json:"held,omitempty"`
	Room  *Room       `json:"room,omitempty"`
	Error string      `json:"error,omitempty"`
}

// deskAnswers is how many questions are answered at a time: a fresh look at the GPUs takes a while.
const deskAnswers = 8

// ServeLeases answers questions about this machine's GPUs until ctx ends.
func (q *Queue) ServeLeases(ctx context.Context, desk LeaseDesk) error {
	questions := make(chan *nats.Msg, 256)
	sub, err := q.nc.ChanSubscribe(prefixLease+token(desk.Machine)+".>", questions)
	if err != nil {
		return fmt.Errorf("lease desk: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	var answers errgroup.Group
	answers.SetLimit(deskAnswers)
	for {
		select {
		case <-ctx.Done():
			return answers.Wait()
		case m := <-questions:
			answers.Go(func() error {
				q.answerDesk(m, desk.serve(ctx, m))
				return nil
			})
		}
	}
}

func (d LeaseDesk) serve(ctx context.Context, m *nats.Msg) deskAnswer {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second) // who asks waits five
	defer cancel()
	what, _, _, err := parseControlSubject(m.Subject)
	if err != nil {
		return deskAnswer{Error: err.Error()}
	}
	switch what {
	case askHeld:
		return deskAnswer{Held: d.Held()}
	case askRoom:
		var question roomQuestion
		if err := json.Unmarshal(m.Data, &question); err != nil {
			return deskAnswer{Error: fmt.Sprintf("%v: not JSON: %v", ErrBadRequest, err)}
		}
		room := d.Room(ctx, question.Requirements)
		return deskAnswer{Room: &room}
	}
	return deskAnswer{Error: fmt.Sprintf("this version cannot tell %q", what)}
}

func (q *Queue) answerDesk(m *nats.Msg, a deskAnswer) {
	if m.Reply == "" {
		return
	}
	body, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(body)
	}
	if err != nil {
		q.log.Warn("lease_question_not_answered", "subject", m.Subject, "err", err)
	}
}

// ErrNoWorker is the answer when no worker of that name is there.
var ErrNoWorker = errors.New("no worker answers")

// Leases lists what is held on a machine, as its worker knows it. ErrNoWorker: there is none.
func (q *Queue) Leases(ctx context.Context, machine string, me Me) ([]HeldLease, error) {
	a, err := q.askDesk(ctx, machine, askHeld, me, struct{}{})
	if err != nil {
		return nil, fmt.Errorf("leases of %s: %w", machine, err)
	}
	return a.Held, nil
}

// AskRoom asks a machine's worker whether it could give this now. ErrNoWorker: there is none.
func (q *Queue) AskRoom(ctx context.Context, machine string, req job.Requirements, me Me) (Room, error) {
	a, err := q.askDesk(ctx, machine, askRoom, me, roomQuestion{req})
	if err == nil && a.Room == nil {
		err = errors.New("an answer without a word about room")
	}
	if err != nil {
		return Room{}, fmt.Errorf("room on %s: %w", machine, err)
	}
	return *a.Room, nil
}

func (q *Queue) askDesk(ctx context.Context, machine, what string, me Me, question any) (a deskAnswer, err error) {
	if err := errors.Join(checkToken("project", me.Project), checkToken("user", me.User)); err != nil {
		return a, err
	}
	body, err := json.Marshal(question)
	if err != nil {
		return a, err
	}
	try, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m, err := q.nc.RequestWithContext(try, prefixLease+token(machine)+"."+what+"."+me.Project+"."+me.User, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return a, ErrNoWorker
	}
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, fmt.Errorf("an answer that is no JSON: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}
