package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/follow"
	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newShow(g *cli.Globals) *cobra.Command {
	return watchable(&cobra.Command{
		Use:     "show ID...",
		Short:   "show everything about a job",
		Example: "  berth show 1842\n  berth show @last -o json | jq .result.gpu_monitoring",
		Args:    cli.Takes(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(g, cmd, func(ctx context.Context, g *cli.Globals, q *queue.Queue) error { return show(ctx, g, q, args) })
		},
	})
}

// shown is a job with all that is kept about it.
type shown struct {
	jobJSON
	SubmittedAt time.Time       `json:"submitted_at"`
	SubmitHost  string          `json:"submit_host,omitempty"`
	Spec        job.Spec        `json:"spec"`
	AttemptList []job.Attempt   `json:"attempt_list,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"` // as published

	result *job.Result
}

func show(ctx context.Context, g *cli.Globals, q *queue.Queue, words []string) error {
	found, err := refs(ctx, g, q, words)
	if err != nil {
		return err
	}
	all := make([]shown, len(found))
	for i, ref := range found {
		if all[i], err = load(ctx, q, ref); err != nil {
			return cli.Broker(err)
		}
	}
	if g.Output == table.JSON && len(all) == 1 {
		return table.WriteJSON(g.Out(), all[0])
	}
	if !g.Output.ForPeople() {
		view := table.View[shown]{Name: func(s shown) string { return s.Ref.String() }}
		for _, c := range jobTable(g.Env().Now()).Columns {
			view.Columns = append(view.Columns, under(c))
		}
		return cli.Print(g, view, all)
	}
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(g.Out())
		}
		if err := describe(ctx, g, q, s); err != nil {
			return err
		}
	}
	return nil
}

// under makes a column of a job one of what show knows of it.
func under(c table.Column[queue.JobView]) table.Column[shown] {
	out := table.Column[shown]{Title: c.Title, Field: c.Field, Cell: func(s shown) table.Cell { return c.Cell(s.JobView) }}
	if c.Raw != nil {
		out.Raw = func(s shown) string { return c.Raw(s.JobView) }
	}
	return out
}

func load(ctx context.Context, q *queue.Queue, ref queue.Ref) (shown, error) {
	v, err := q.Show(ctx, ref)
	if err != nil {
		return shown{}, err
	}
	one := []queue.JobView{v}
	if err := q.AddProgress(ctx, one); err != nil {
		return shown{}, err
	}
	v = one[0]
	s := shown{jobJSON: jobJSON{Version: 1, JobView: v}, Spec: v.Job.Spec, SubmittedAt: v.Job.SubmittedAt, SubmitHost: v.Job.SubmitHost}
	if v.Record != nil {
		s.AttemptList = v.Record.Attempts
	}
	r, err := q.Result(ctx, v.Project, ref)
	if errors.Is(err, queue.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.result = &r
	s.Result, err = json.Marshal(r)
	return s, err
}

const labelWidth = 10

func describe(ctx context.Context, g *cli.Globals, q *queue.Queue, s shown) error {
	term, now := g.Screen(), g.Env().Now()
	row := func(label, text string) {
		if text != "" {
			fmt.Fprintf(g.Out(), "%s %s\n", term.Paint(screen.Dim, screen.Pad(label, labelWidth, false)), screen.Safe(text))
		}
	}
	cell := stateCell(s.JobView)
	fmt.Fprintf(g.Out(), "%s %s  %s\n", term.Paint(screen.Bold, "job "+s.Ref.String()), screen.Safe(s.Name), term.Paint(cell.Color, cell.Text))
	row("why", whyText(s.JobView))
	fit := func(text string) string { return screen.Fit(text, max(term.Width-labelWidth-1, 0)) }
	if len(s.Spec.Steps) == 0 {
		row("command", fit(s.Spec.CommandLine()))
	}
	for i, line := range stepLines(s) {
		label := ""
		if i == 0 {
			label = "steps"
		}
		row(label, fit(line))
	}
	row("tasks", tasksText(s.JobView))
	row("in", s.Spec.Workdir)
	row("project", s.Project)
	row("user", userText(s.JobView, s.SubmitHost))
	row("id", s.ID)
	row("priority", fmt.Sprint(s.Priority))
	if s.TimeLimit > 0 {
		row("time limit", screen.Span(s.TimeLimit.Std()))
	}
	row("asks for", needsText(s.Needs))
	row("labels", labels(s.Spec.Labels))
	row("submitted", when(&s.SubmittedAt, now))
	row("started", when(s.StartedAt, now))
	row("ended", when(s.EndedAt, now))
	row("machine", s.Machine)
	row("gpus", strings.Join(s.Devices, " "))
	for _, a := range s.AttemptList {
		row(fmt.Sprintf("attempt %d", a.Attempt), attemptText(a))
	}
	if s.result == nil {
		return nil
	}
	if len(s.result.Output) > 0 {
		row("output", string(s.result.Output))
	}
	if s.result.Evidence != "" {
		row("evidence", s.result.Evidence)
	}
	if s.result.StartedAt == nil {
		return nil
	}
	fmt.Fprintln(g.Out())
	in := follow.Input(ctx, q, *s.result)
	in.Untitled = true
	return report.Write(g.Out(), term, in)
}

// stepLines are a pipeline's steps, with how they ended as far as that is known.
func stepLines(s shown) []string {
	var lines []string
	for i, step := range s.Spec.Steps {
		text := fmt.Sprintf("%d %s", i+1, s.Spec.StepName(i))
		if s.result != nil && i < len(s.result.Steps) {
			text += ": " + stepEnd(s.result.Steps[i], s.result.Attempt)
		}
		lines = append(lines, text+"  "+strings.Join(step.Command, " "))
	}
	return lines
}

func stepEnd(r job.StepResult, attempt int) string {
	switch {
	case r.StartedAt == nil:
		return "did not run"
	case r.Exit == nil:
		return "nobody saw it end"
	}
	text := fmt.Sprintf("exit %d after %s", r.Exit.Code, screen.Span(screen.Seconds(r.RunSeconds)))
	if r.Attempt != attempt {
		text += fmt.Sprintf(" in attempt %d", r.Attempt)
	}
	return text
}

// tasksText is how far a group has come.
func tasksText(v queue.JobView) string {
	switch {
	case v.Tasks == nil:
		return ""
	case len(v.Tasks.States) > 0:
		var parts []string
		for _, state := range states {
			if n := v.Tasks.States[state]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, state))
			}
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%d of %d have ended, %d were given to the lanes", v.Tasks.Ended, v.Tasks.Count, v.Tasks.Released)
}

func userText(v queue.JobView, host string) string {
	text := v.User
	if v.UserClaimed {
		text += " (claimed)"
	}
	if host != "" {
		text += " from " + host
	}
	return text
}

func needsText(r job.Requirements) string {
	text := "no GPU"
	if r.GPUs > 0 {
		text = screen.Plural(r.GPUs, "GPU")
	}
	if r.GPUMemoryMB > 0 {
		text += " with " + screen.Memory(r.GPUMemoryMB)
	}
	if r.CPUs > 0 {
		text += ", " + screen.Plural(r.CPUs, "core")
	}
	if r.MemoryMB > 0 {
		text += ", " + screen.Memory(r.MemoryMB) + " of host memory"
	}
	if r.Why != "" {
		text += " (" + r.Why + ")"
	}
	return text
}

func when(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05") + ", " + screen.Ago(*t, now)
}

func attemptText(a job.Attempt) string {
	text := string(a.Outcome)
	if text == "" {
		text = "running"
	}
	text += " on " + a.Machine
	if a.EndedAt != nil {
		text += " after " + screen.Span(a.EndedAt.Sub(a.StartedAt))
	}
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}
