package report

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
)

// Results is a list of results; now is what relative times are seen from.
func Results(now time.Time) table.View[job.Result] {
	return table.View[job.Result]{
		Name:  Number,
		Empty: "no results",
		Columns: []table.Column[job.Result]{
			{Title: "ID", Field: "number", Width: 6, Cell: func(r job.Result) table.Cell { return table.Text(Number(r)) }},
			{Title: "NAME", Field: "name", Shrink: 10, Width: 20, Cell: func(r job.Result) table.Cell { return table.Text(dash(r.Name)) },
				Raw: func(r job.Result) string { return r.Name }},
			{Title: "STATE", Field: "state", Width: 9, Cell: func(r job.Result) table.Cell {
				return table.Cell{Text: string(r.State), Color: StateColor(r.State)}
			}},
			{Title: "EXIT", Field: "exit", Right: true, Width: 4, Cell: func(r job.Result) table.Cell { return table.Text(dash(ExitText(r.Exit))) },
				Raw: func(r job.Result) string { return ExitText(r.Exit) }},
			{Title: "PROJECT", Field: "project", Wide: true, Width: 10, Cell: func(r job.Result) table.Cell { return table.Text(r.Project) }},
			{Title: "USER", Field: "user", Drop: 3, Width: 10, Cell: func(r job.Result) table.Cell { return table.Text(r.User) }},
			{Title: "MACHINE", Field: "machine", Drop: 2, Width: 12, Cell: func(r job.Result) table.Cell { return table.Text(dash(r.Machine)) },
				Raw: func(r job.Result) string { return r.Machine }},
			{Title: "RAN", Field: "run_seconds", Right: true, Width: 6,
				Cell: func(r job.Result) table.Cell { return table.Text(ranFor(r)) },
				Raw:  func(r job.Result) string { return strconv.FormatFloat(r.RunSeconds, 'f', -1, 64) }},
			{Title: "WAITED", Field: "queued_seconds", Right: true, Drop: 4, Width: 6,
				Cell: func(r job.Result) table.Cell { return table.Text(screen.Span(screen.Seconds(r.QueuedSeconds))) },
				Raw:  func(r job.Result) string { return strconv.FormatFloat(r.QueuedSeconds, 'f', -1, 64) }},
			{Title: "ENDED", Field: "ended_at", Drop: 5, Width: 9, Cell: func(r job.Result) table.Cell {
				if r.EndedAt == nil {
					return table.Text("-")
				}
				return table.Cell{Text: screen.Ago(*r.EndedAt, now), Color: screen.Dim}
			}, Raw: func(r job.Result) string { return stamp(r.EndedAt) }},
			{Title: "WHY", Field: "reason", Drop: 1, Shrink: 12, Cell: func(r job.Result) table.Cell { return table.Text(r.Reason) }},
		},
	}
}

func ranFor(r job.Result) string {
	if r.StartedAt == nil {
		return "-"
	}
	return screen.Span(screen.Seconds(r.RunSeconds))
}

// ExitText is how a process ended: its code, or the signal.
func ExitText(e *job.Exit) string {
	switch {
	case e == nil:
		return "" // nobody saw one
	case e.Signal != "":
		return e.Signal
	}
	return fmt.Sprint(e.Code)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// stamp is a time for programs.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
