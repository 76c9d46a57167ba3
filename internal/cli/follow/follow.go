package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// Options say what is shown while waiting.
type Options struct {
	Output *Output // the jobs' own bytes; nil shows none
	Report bool    // the efficiency report at the end, where somebody looks at stderr
	JSON   bool    // the results on stdout
}

// Wait waits for all the jobs and returns nil, or the error that ends the command as they ended: a single job's own
// code, 1 where one of several (or of a group's tasks) did not succeed.
func Wait(ctx context.Context, g *cli.Globals, q *queue.Queue, refs []queue.Ref, o Options) error {
	results, err := all(ctx, g, q, refs, o)
	if err != nil {
		return interrupted(g, refs, err)
	}
	if o.Output != nil && (g.Screen().TTY || g.Console().TTY) {
		o.Output.EndLine(g.Env().Stderr)
	}
	for _, r := range results {
		if err := tell(ctx, g, q, r, o); err != nil {
			return err
		}
	}
	if o.JSON {
		if err := printResults(g, results); err != nil {
			return err
		}
	}
	return ending(ctx, q, refs, results)
}

// all waits for the results, and shows output and how far things are meanwhile.
func all(ctx context.Context, g *cli.Globals, q *queue.Queue, refs []queue.Ref, o Options) ([]job.Result, error) {
	line := screen.NewLine(g.Env().Stderr, g.Console())
	if o.Output != nil {
		o.Output.Above(line, g.Env().Getenv)
	}
	shown, hide := context.WithCancel(ctx)
	var foot sync.WaitGroup
	defer foot.Wait()
	defer hide()
	s := newStatus(ctx, g, q, refs, line)
	if s != nil {
		foot.Go(func() { s.run(shown) })
	}
	results := make([]job.Result, len(refs))
	group, ctx := errgroup.WithContext(ctx)
	for i, ref := range refs {
		group.Go(func() (err error) {
			results[i], err = q.WaitResult(ctx, ref)
			return err
		})
	}
	if o.Output != nil {
		group.Go(func() error { return Copy(ctx, q, refs, queue.LogOptions{Follow: true}, o.Output) })
	}
	err := group.Wait()
	if s != nil && err == nil {
		s.settle(shown)
	}
	return results, err
}

// Copy writes the logs of jobs, one after the other.
func Copy(ctx context.Context, q *queue.Queue, refs []queue.Ref, o queue.LogOptions, out *Output) error {
	for _, ref := range refs {
		for chunk, err := range q.Logs(ctx, ref, o) {
			if err != nil {
				return err
			}
			if err := out.Chunk(chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// interrupted says that the jobs stay where they are.
func interrupted(g *cli.Globals, refs []queue.Ref, err error) error {
	if !errors.Is(err, context.Canceled) {
		return cli.Broker(err)
	}
	if len(refs) == 1 {
		g.Say("berth: stopped waiting; job %s keeps its place (berth cancel %s ends it)", refs[0], refs[0])
	} else {
		g.Say("berth: stopped waiting; the jobs keep their places")
	}
	return exit.Silent(exit.Interrupted)
}

// tell says how a job ended: the report where somebody looks and it ran, a line otherwise.
func tell(ctx context.Context, g *cli.Globals, q *queue.Queue, r job.Result, o Options) error {
	if g.Quiet {
		return nil
	}
	if term := g.Console(); o.Report && r.StartedAt != nil && (term.TTY || g.Verbose) {
		fmt.Fprintln(g.Env().Stderr)
		return report.Write(g.Env().Stderr, term, Input(ctx, q, r))
	}
	line := fmt.Sprintf("job %s %s", report.Number(r), r.State)
	if r.Reason != "" {
		line += ": " + screen.Safe(r.Reason)
	}
	if r.StartedAt != nil {
		line += fmt.Sprintf(" (ran %s on %s)", screen.Span(screen.Seconds(r.RunSeconds)), screen.Safe(r.Machine))
	}
	g.Say("berth: %s", line)
	return nil
}

// ending is the exit code of a command that waited: a job's own, or of a group and of several jobs whether all
// succeeded.
func ending(ctx context.Context, q *queue.Queue, refs []queue.Ref, results []job.Result) error {
	if len(results) == 1 && !isGroup(ctx, q, refs[0]) {
		if code := exit.OfResult(results[0]); code != exit.OK {
			return exit.Silent(code)
		}
		return nil
	}
	for _, r := range results {
		if r.State != job.Succeeded {
			return exit.Silent(exit.Failed)
		}
	}
	return nil
}

func isGroup(ctx context.Context, q *queue.Queue, ref queue.Ref) bool {
	j, err := q.Job(ctx, ref.Number)
	return err == nil && j.IsGroup() && !ref.Task
}

// printResults writes the results in the form asked for, each with "accepted": true so that a refusal is told apart; one
// alone as one object.
func printResults(g *cli.Globals, results []job.Result) error {
	view := report.Results(g.Env().Now())
	view.Value = func(r job.Result) any { return acceptedJSON{true, r} }
	if g.Output == table.JSON && len(results) == 1 {
		return table.WriteJSON(g.Out(), view.Value(results[0]))
	}
	return cli.Print(g, view, results)
}

// acceptedJSON is a result as programs that waited for it see it.
type acceptedJSON struct {
	accepted bool
	result   job.Result
}

// MarshalJSON adds a field to the result's own form, which keeps fields of newer versions.
func (a acceptedJSON) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(a.result)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	fields["accepted"] = json.RawMessage(strconv.FormatBool(a.accepted))
	return json.Marshal(fields)
}
