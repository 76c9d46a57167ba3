package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
)

// The verbs of control requests.
const (
	verbCancel  = "cancel"
	verbHold    = "hold"
	verbRelease = "release"
	verbSet     = "set"
	verbRetry   = "retry"
	verbLease   = "lease"
	verbDrain   = "drain"
	verbUndrain = "undrain"
)

// controlRequest is the body of a request on berth.ctl.<verb>.<project>.<user>. Who asks is in the subject.
type controlRequest struct {
	Job     string `json:"job,omitempty"`
	Machine string `json:"machine,omitempty"`
	Reason  string `json:"reason,omitempty"`
	GPU     string `json:"gpu,omitempty"` // of the verbs about one: UUID, its beginning, or index

	Priority  *int          `json:"priority,omitempty"`   // of the verb set
	TimeLimit *job.Duration `json:"time_limit,omitempty"` // likewise; 0 is none

	OnlyFailed  bool `json:"only_failed,omitempty"`  // of the verb retry
	OnlyWaiting bool `json:"only_waiting,omitempty"` // of the verb cancel: not one that runs

	Lease *leaseWish `json:"lease,omitempty"` // of the verb lease

	Patience job.Duration `json:"patience,omitempty"` // of the verb drain; 0: the machine's own
}

// controlAnswer is what comes back.
type controlAnswer struct {
	State job.State `json:"state,omitempty"`
	Error string    `json:"error,omitempty"`
	Kind  string    `json:"kind,omitempty"` // which sentinel the error is
}

// The errors that keep their identity across the wire.
var wireErrors = map[string]error{
	"not_found": ErrNotFound, "final": ErrFinal, "not_allowed": ErrNotAllowed, "bad_request": ErrBadRequest, "running": ErrRunning,
	"no_lease": ErrNoLease, "not_final": ErrNotFinal, "nothing_failed": ErrNothingFailed,
}

// ErrBadRequest is a control request that makes no sense.
var ErrBadRequest = errors.New("the request makes no sense")

// MachineControl is what a worker does when its own machine is meant.
type MachineControl struct {
	Machine string
	// Drain takes no more and finishes what runs; what still runs after patience is stopped, 0: the machine's own.
	Drain   func(by, reason string, patience time.Duration)
	Undrain func(by string)

	// All answer with the GPU's UUID. Wrap ErrNotFound for one that the machine does not have.
	Quarantine func(gpu, by, reason string) (uuid string, err error)
	Restore    func(gpu, by, reason string) (uuid string, err error)
	Probe      func(gpu, by, reason string) (uuid string, err error)
}

// ServeControl answers control requests until ctx ends: about any job, as one of all workers, and about this worker's
// machine.
func (q *Queue) ServeControl(ctx context.Context, own MachineControl) error {
	requests := make(chan *nats.Msg, 256)
	shared, err := q.nc.ChanQueueSubscribe(subjectControlAll, controlQueue, requests)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	defer func() { _ = shared.Unsubscribe() }() // fails only when the connection is gone
	machine, err := q.nc.ChanSubscribe(prefixMachine+token(own.Machine)+".>", requests)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	defer func() { _ = machine.Unsubscribe() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-requests:
			q.answer(m, q.serve(ctx, m, own))
		}
	}
}

func (q *Queue) answer(m *nats.Msg, a controlAnswer) {
	if m.Reply == "" {
		return
	}
	body, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(body)
	}
	if err != nil {
		q.log.Warn("control_not_answered", "subject", m.Subject, "err", err)
	}
}

func failure(err error) controlAnswer {
	a := controlAnswer{Error: err.Error()}
	for kind, sentinel := range wireErrors {
		if errors.Is(err, sentinel) {
			a.Kind = kind
		}
	}
	return a
}

// serve does what one request asks.
func (q *Queue) serve(ctx context.Context, m *nats.Msg, own MachineControl) controlAnswer {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second) // who asks waits five
	defer cancel()
	verb, project, user, err := parseControlSubject(m.Subject)
	if err != nil {
		return failure(err)
	}
	var r controlRequest
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return failure(fmt.Errorf("%w: not JSON: %w", ErrBadRequest, err))
	}
	switch verb {
	case verbDrain:
		if own.Drain != nil {
			own.Drain(user, r.Reason, time.Duration(r.Patience))
		}
		q.noteDeed(ctx, Event{Kind: verb, By: user, Machine: own.Machine, Text: r.Reason})
		return controlAnswer{}
	case verbUndrain:
		if own.Undrain != nil {
			own.Undrain(user)
		}
		q.noteDeed(ctx, Event{Kind: verb, By: user, Machine: own.Machine})
		return controlAnswer{}
	case verbQuarantine, verbRestore, verbProbe:
		return q.serveGPU(ctx, verb, user, r, own)
	}
	state, err := q.control(ctx, verb, project, user, r)
	if err != nil {
		return failure(err)
	}
	return controlAnswer{State: state}
}

// control does a verb about a job for a user of a project.
func (q *Queue) control(ctx context.Context, verb, project, user string, r controlRequest) (job.State, error) {
	ref, err := ParseRef(r.Job)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	j, err := q.Job(ctx, ref.Number)
	if err != nil && !errors.Is(err, errGarbage) {
		return "", err
	}
	if j != nil && j.Project != project {
		return "", fmt.Errorf("%w: job %s belongs to project %s, you asked as %s", ErrNotAllowed, ref, j.Project, project)
	}
	switch verb {
	case verbCancel:
		if r.OnlyWaiting {
			return q.withdraw(ctx, ref, job.Cancel{By: user, At: q.now().UTC(), Reason: r.Reason})
		}
		return q.cancelJob(ctx, ref, job.Cancel{By: user, At: q.now().UTC(), Reason: r.Reason})
	case verbHold, verbRelease, verbSet:
		if j == nil {
			return "", ErrFinal // a message that is no job has ended dead
		}
		return q.steer(ctx, verb, ref, j, user, r)
	case verbRetry:
		return q.retryJob(ctx, ref, j, user, r.OnlyFailed)
	case verbLease:
		return q.leaseDeed(ctx, ref, j, user, r)
	}
	return "", fmt.Errorf("%w: this version knows no %q", ErrBadRequest, verb)
}

// parseControlSubject reads berth.ctl.<verb>.<project>.<user> and berth.machine.<machine>.<verb>.<project>.<user>.
func parseControlSubject(subject string) (verb, project, user string, err error) {
	t := strings.Split(subject, ".")
	if len(t) < 5 {
		return "", "", "", fmt.Errorf("%w: subject %q", ErrBadRequest, subject)
	}
	return t[len(t)-3], t[len(t)-2], t[len(t)-1], nil
}

// ask sends a control request and waits for its answer.
func (q *Queue) ask(ctx context.Context, subject string, r controlRequest) (controlAnswer, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return controlAnswer{}, err
	}
	try, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m, err := q.nc.RequestWithContext(try, subject, body)
	if err != nil {
		return controlAnswer{}, err
	}
	var a controlAnswer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, fmt.Errorf("an answer that is no JSON: %w", err)
	}
	if a.Error == "" {
		return a, nil
	}
	if sentinel, ok := wireErrors[a.Kind]; ok {
		return a, &controlError{a.Error, sentinel}
	}
	return a, errors.New(a.Error)
}

// controlError is an error as another process put it.
type controlError struct {
	text string
	kind error
}

func (e *controlError) Error() string { return e.text }
func (e *controlError) Unwrap() error { return e.kind }

// Cancel asks for the end of a job, task or group. The state is cancelled if it was waiting; running if its holder has
// been told: WaitResult then brings the proof. Where no worker is there to answer, the request is done right here.
func (q *Queue) Cancel(ctx context.Context, ref Ref, by, reason string) (job.State, error) {
	return q.askAbout(ctx, verbCancel, ref, by, controlRequest{Job: ref.String(), Reason: reason})
}

// Withdraw cancels a job that waits: Cancelled. Running: it has been started meanwhile, and goes on.
func (q *Queue) Withdraw(ctx context.Context, ref Ref, by, reason string) (job.State, error) {
	return q.askAbout(ctx, verbCancel, ref, by, controlRequest{Job: ref.String(), Reason: reason, OnlyWaiting: true})
}

// askAbout sends a verb about one job, as a user of the job's own project.
func (q *Queue) askAbout(ctx context.Context, verb string, ref Ref, by string, r controlRequest) (job.State, error) {
	project, err := q.projectOf(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, ref, err)
	}
	if err := checkToken("user", by); err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, ref, err)
	}
	a, err := q.ask(ctx, prefixControl+verb+"."+project+"."+by, r)
	if errors.Is(err, nats.ErrNoResponders) {
		a.State, err = q.control(ctx, verb, project, by, r)
	}
	if err != nil {
		return a.State, fmt.Errorf("%s %s: %w", verb, ref, err)
	}
	return a.State, nil
}

func (q *Queue) projectOf(ctx context.Context, ref Ref) (string, error) {
	j, err := q.Job(ctx, ref.Number)
	if err == nil {
		return j.Project, nil
	}
	if !errors.Is(err, errGarbage) {
		return "", err
	}
	s, err := q.getSeq(ctx, ref.Number)
	if err != nil {
		return "", err
	}
	project, _, _ := parseJobSubject(s.Subject)
	return project, nil
}

// Drain asks a machine to take no more jobs and to finish what runs; Undrain ends that. What still runs after patience is
// stopped and goes back to the queue free of charge; with 0 the machine's own setting counts, which is to wait.
func (q *Queue) Drain(ctx context.Context, machine, by, reason string, patience time.Duration) error {
	return q.askMachine(ctx, verbDrain, machine, by, controlRequest{Reason: reason, Patience: job.Duration(patience)})
}

// Undrain lets a drained machine take jobs again.
func (q *Queue) Undrain(ctx context.Context, machine, by string) error {
	return q.askMachine(ctx, verbUndrain, machine, by, controlRequest{})
}

func (q *Queue) askMachine(ctx context.Context, verb, machine, by string, r controlRequest) error {
	if err := checkToken("user", by); err != nil {
		return fmt.Errorf("%s %s: %w", verb, machine, err)
	}
	subject := prefixMachine + token(machine) + "." + verb + "._." + by
	r.Machine = machine
	_, err := q.ask(ctx, subject, r)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%s %s: no worker of that name is there; `berth machines` lists them", verb, machine)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, machine, err)
	}
	return nil
}
