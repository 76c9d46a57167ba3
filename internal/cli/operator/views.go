package operator

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// jobJSON is a job as programs see it.
type jobJSON struct {
	Version int `json:"version"`
	queue.JobView
}

func jobValue(v queue.JobView) any { return jobJSON{Version: 1, JobView: v} }

// jobTable is a list of jobs; now is what relative times are seen from.
func jobTable(now time.Time) table.View[queue.JobView] {
	return table.View[queue.JobView]{
		Name:  func(v queue.JobView) string { return v.Ref.String() },
		Value: jobValue,
		Empty: "no jobs; submit -- COMMAND queues one",
		Columns: []table.Column[queue.JobView]{
			{Title: "ID", Field: "number", Cell: func(v queue.JobView) table.Cell { return table.Text(v.Ref.String()) }},
			{Title: "NAME", Field: "name", Shrink: 10, Cell: func(v queue.JobView) table.Cell { return table.Text(nameOf(v)) },
				Raw: func(v queue.JobView) string { return v.Name }},
			{Title: "STATE", Field: "state", Cell: stateCell, Raw: func(v queue.JobView) string { return string(v.State) }},
			{Title: "USER", Field: "user", Drop: 5, Cell: func(v queue.JobView) table.Cell { return table.Text(v.User) }},
			{Title: "PROJECT", Field: "project", Wide: true, Cell: func(v queue.JobView) table.Cell { return table.Text(v.Project) }},
			{Title: "PRIO", Field: "priority", Wide: true, Right: true,
				Cell: func(v queue.JobView) table.Cell { return table.Text(strconv.Itoa(v.Priority)) }},
			{Title: "GPUS", Field: "gpus", Right: true, Drop: 2, Cell: func(v queue.JobView) table.Cell { return table.Text(gpusText(v.Needs)) },
				Raw: func(v queue.JobView) string { return strconv.Itoa(v.Needs.GPUs) }},
			{Title: "MACHINE", Field: "machine", Drop: 3, Shrink: 8, Cell: func(v queue.JobView) table.Cell { return table.Text(dash(v.Machine)) },
				Raw: func(v queue.JobView) string { return v.Machine }},
			{Title: "QUEUED", Field: "queued_at", Drop: 6, Cell: func(v queue.JobView) table.Cell {
				return table.Cell{Text: screen.Ago(v.QueuedAt, now), Color: screen.Dim}
			}, Raw: func(v queue.JobView) string { return stamp(&v.QueuedAt) }},
			{Title: "RAN", Right: true, Drop: 4, Cell: func(v queue.JobView) table.Cell { return table.Text(ranText(v, now)) }},
			{Field: "started_at", Cell: func(v queue.JobView) table.Cell { return table.Text(stamp(v.StartedAt)) }},
			{Field: "ended_at", Cell: func(v queue.JobView) table.Cell { return table.Text(stamp(v.EndedAt)) }},
			{Title: "TRIES", Field: "attempts", Wide: true, Right: true,
				Cell: func(v queue.JobView) table.Cell { return table.Text(strconv.Itoa(v.Attempts)) }},
			{Title: "WHY", Field: "reason", Drop: 1, Shrink: 12, Cell: func(v queue.JobView) table.Cell { return table.Text(whyText(v)) }},
		},
	}
}

func nameOf(v queue.JobView) string {
	if v.Name != "" {
		return v.Name
	}
	if v.Job != nil {
		return dash(v.Job.Spec.CommandLine())
	}
	return "-"
}

func stateCell(v queue.JobView) table.Cell {
	text := string(v.State)
	if v.Tasks != nil {
		text += fmt.Sprintf(" %d/%d", v.Tasks.Ended, v.Tasks.Count)
	}
	return table.Cell{Text: text, Color: report.StateColor(v.State)}
}

func gpusText(r job.Requirements) string {
	switch {
	case r.GPUs == 0:
		return "-"
	case r.GPUMemoryMB > 0:
		return fmt.Sprintf("%d x %s", r.GPUs, screen.Memory(r.GPUMemoryMB))
	}
	return strconv.Itoa(r.GPUs)
}

func ranText(v queue.JobView, now time.Time) string {
	switch {
	case v.StartedAt == nil:
		return "-"
	case v.EndedAt != nil:
		return screen.Span(v.EndedAt.Sub(*v.StartedAt))
	case v.State == job.Running:
		return screen.Span(now.Sub(*v.StartedAt))
	}
	return "-"
}

func whyText(v queue.JobView) string {
	switch {
	case v.Progress != nil:
		return progressText(*v.Progress)
	case v.Reason != "" && v.ReasonText != "":
		return v.Reason + ": " + v.ReasonText
	case v.ReasonText != "":
		return v.ReasonText
	case v.Reason != "":
		return v.Reason
	case v.Record != nil && v.Record.Result != nil:
		return v.Record.Result.Reason
	}
	return ""
}

// progressText is how far a job says it is: a bar, the figures, its words.
func progressText(p job.Progress) string {
	const width = 12
	text := screen.Bar(p.Share(), width) + " " + p.Figures()
	if p.Text != "" {
		text += " " + p.Text
	}
	return text
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
