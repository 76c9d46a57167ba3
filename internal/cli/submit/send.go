package submit

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/follow"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

// receipt is what is said about one accepted job, and its JSON.
type receipt struct {
	Version   int    `json:"version"`
	Accepted  bool   `json:"accepted"`
	Number    uint64 `json:"number,omitempty"`
	JobID     string `json:"job_id,omitempty"`
	Name      string `json:"name,omitempty"`
	Project   string `json:"project"`
	Tasks     int    `json:"tasks,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"` // the idempotency key is known
	AsksFor   string `json:"asks_for,omitempty"`
	Reason    string `json:"reason,omitempty"` // of a refusal, or why an accepted job will wait
}

// send asks the fleet, then the broker, and waits where that was asked for.
func send(ctx context.Context, g *cli.Globals, f *flags, all *family) error {
	jobs := all.jobs
	q, done, err := cli.Dial(ctx, g)
	if err != nil {
		return err
	}
	defer done()
	notes, err := askFleet(ctx, q, f, jobs)
	if err == nil {
		err = askQuota(ctx, q, jobs)
	}
	if err == nil && f.when.now {
		err = askRoom(ctx, q, g.Env(), jobs)
	}
	if err == nil {
		err = all.check(ctx, q)
	}
	if err != nil {
		return refused(g, f, jobs, err)
	}
	receipts := make([]receipt, 0, len(jobs))
	way := newSending(g, len(jobs))
	defer way.line.Close()
	for _, i := range all.order {
		p := all.named(i)
		r, err := submitOne(ctx, q, p)
		if err != nil {
			return partly(receipts, len(jobs), err)
		}
		if f.when.now {
			if err := started(ctx, q, g.Env(), r.Number); err != nil {
				return refused(g, f, jobs, err)
			}
		}
		r.Reason = notes[i]
		receipts = append(receipts, r)
		way.sent(len(receipts))
		if name := p.job.Spec.Name; name != "" {
			all.number[name] = r.Number
		}
		if f.follow || f.wait && isJSON(g) {
			continue // stdout is the job's, or the result's
		}
		if err := way.over(func() error { return announceOne(g, p, r) }); err != nil {
			return err
		}
	}
	way.line.Close()
	if g.Output == table.JSON && !f.wait && !f.follow {
		return announceJSON(g, receipts)
	}
	if f.wait || f.follow {
		return await(ctx, g, q, f, receipts)
	}
	return nil
}

func submitOne(ctx context.Context, q *queue.Queue, p prepared) (receipt, error) {
	got, err := q.Submit(ctx, p.job)
	if err != nil {
		return receipt{}, submitError(err)
	}
	r := receipt{Version: 1, Accepted: true, Number: got.Number, JobID: got.ID, Name: p.job.Spec.Name, Project: p.job.Project,
		Duplicate: got.Duplicate, AsksFor: whole(p.job)}
	if p.job.Tasks != nil {
		r.Tasks = p.job.Tasks.Count
	}
	return r, nil
}

func submitError(err error) error {
	switch {
	case errors.Is(err, queue.ErrTooLarge), errors.Is(err, queue.ErrParent), errors.Is(err, queue.ErrAmbiguous):
		return exit.With(exit.Spec, err)
	case errors.Is(err, queue.ErrTooManyLanes):
		return exit.With(exit.Refused, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return exit.With(exit.Broker, err)
}

// partly says which of several jobs went through before the broker was lost.
func partly(sent []receipt, all int, err error) error {
	if len(sent) == 0 {
		return err
	}
	last := sent[len(sent)-1]
	return fmt.Errorf("%d of %d jobs were accepted (the last is %d), then: %w", len(sent), all, last.Number, err)
}

// refused tells a refusal apart from a job's own exit code where both are possible.
func refused(g *cli.Globals, f *flags, jobs []prepared, err error) error {
	if code := exit.Of(err); code != exit.Refused && code != exit.NothingFree {
		return err
	}
	if isJSON(g) && !f.follow {
		r := receipt{Version: 1, Project: jobs[0].job.Project, Name: jobs[0].job.Spec.Name, Reason: err.Error()}
		if printErr := table.WriteJSON(g.Out(), r); printErr != nil {
			return printErr
		}
	}
	if f.wait || f.follow {
		err = fmt.Errorf("refused: %w", err)
	}
	return err
}

// announceOne says that a job was accepted: to a person with what to type next, else the number alone.
func announceOne(g *cli.Globals, p prepared, r receipt) error {
	term := g.Screen()
	switch {
	case g.Output == table.JSON:
		return nil // all at once, at the end
	case g.Output == table.JSONL || g.Output == table.CSV:
		return cli.Print(g, receiptView(), []receipt{r})
	case g.Quiet || !term.TTY || g.Output == table.Name:
		_, err := fmt.Fprintln(g.Out(), r.Number)
		return err
	}
	what := r.AsksFor
	if p.job.Requirements.GPUs == 0 {
		what += "; -g 1 asks for a GPU"
	}
	state := "queued"
	if r.Duplicate {
		state = "already queued"
	}
	fmt.Fprintf(g.Out(), "job %s %s: %s\n", term.Paint(screen.Bold, fmt.Sprint(r.Number)), state, screen.Safe(what))
	if r.Reason != "" {
		fmt.Fprintf(g.Out(), "  %s\n", term.Paint(screen.Yellow, screen.Safe(r.Reason)))
	}
	_, err := fmt.Fprintf(g.Out(), "  %s\n", term.Paint(screen.Dim, nextCommands(r)))
	return err
}

func nextCommands(r receipt) string {
	if r.Tasks > 0 {
		return fmt.Sprintf("berth status %[1]d   berth wait %[1]d   berth cancel %[1]d", r.Number)
	}
	return fmt.Sprintf("berth logs %[1]d -f   berth show %[1]d   berth cancel %[1]d", r.Number)
}

// announceJSON prints one object for one job, a list for several.
func announceJSON(g *cli.Globals, all []receipt) error {
	if len(all) == 1 {
		return table.WriteJSON(g.Out(), all[0])
	}
	return table.WriteJSON(g.Out(), all)
}

func receiptView() table.View[receipt] {
	return table.View[receipt]{Columns: []table.Column[receipt]{
		{Field: "number", Cell: func(r receipt) table.Cell { return table.Text(fmt.Sprint(r.Number)) }},
		{Field: "job_id", Cell: func(r receipt) table.Cell { return table.Text(r.JobID) }},
		{Field: "name", Cell: func(r receipt) table.Cell { return table.Text(r.Name) }},
		{Field: "duplicate", Cell: func(r receipt) table.Cell { return table.Text(fmt.Sprint(r.Duplicate)) }},
	}}
}

// await waits for every job and ends as they did.
func await(ctx context.Context, g *cli.Globals, q *queue.Queue, f *flags, sent []receipt) error {
	refs := make([]queue.Ref, len(sent))
	for i, r := range sent {
		refs[i] = queue.JobRef(r.Number)
	}
	o := follow.Options{Report: f.follow, JSON: !f.follow && isJSON(g)}
	if f.follow {
		sayAccepted(g, sent[0])
		o.Output = &follow.Output{Stdout: g.Out(), Stderr: g.Env().Stderr, Tasks: sent[0].Tasks > 0, Bars: g.Screen().TTY}
	}
	return follow.Wait(ctx, g, q, refs, o)
}

// sayAccepted is announceOne for --follow: stdout is the job's.
func sayAccepted(g *cli.Globals, r receipt) {
	state := "queued"
	if r.Duplicate {
		state = "already queued"
	}
	g.Say("berth: job %d %s: %s", r.Number, state, screen.Safe(r.AsksFor))
	if r.Reason != "" {
		g.Say("berth: %s", screen.Safe(r.Reason))
	}
}

func isJSON(g *cli.Globals) bool { return g.Output == table.JSON || g.Output == table.JSONL }
