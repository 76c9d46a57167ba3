package operator

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// taskRow is one task of a group with what it came to.
type taskRow struct {
	ref    queue.Ref
	params map[string]any
	result job.Result
	output map[string]any // the values of its result file that are one plain value each
}

// groupTable prints a group as a table: a line a task, its parameters, how it ended, and the values it reported.
func groupTable(ctx context.Context, g *cli.Globals, q *queue.Queue, number uint64) error {
	rows, err := taskRows(ctx, q, number)
	if err != nil {
		return cli.Broker(err)
	}
	return cli.Print(g, taskView(rows), rows)
}

// taskRows are the last results of a group's tasks by index; of one that has none, its state.
func taskRows(ctx context.Context, q *queue.Queue, number uint64) ([]taskRow, error) {
	last := map[int]job.Result{}
	for r, err := range q.Results(ctx, queue.ResultOptions{Ref: queue.JobRef(number)}) {
		if err != nil {
			return nil, err
		}
		if r.Index != nil {
			last[*r.Index] = r
		}
	}
	var rows []taskRow
	for from, more := 0, true; more; more = from > 0 {
		views, next, err := q.ListTasks(ctx, number, from, 256)
		if err != nil {
			return nil, err
		}
		for _, v := range views {
			rows = append(rows, rowOf(v, last))
		}
		from = next
	}
	return rows, nil
}

func rowOf(v queue.JobView, last map[int]job.Result) taskRow {
	row := taskRow{ref: v.Ref, params: queue.TaskParams(v.Job, v.Ref.Index)}
	r, ended := last[v.Ref.Index]
	if !ended || !v.State.Final() { // it waits or runs, perhaps in a later round
		r = job.Result{
			Version: job.Version, JobID: v.ID, Number: v.Number, Index: v.Index, Group: v.Number, Name: v.Name, Project: v.Project,
			User: v.User, Params: row.params, State: v.State, Machine: v.Machine, Reason: v.ReasonText, QueuedAt: v.QueuedAt,
		}
	}
	row.result = r
	var output map[string]any
	if json.Unmarshal(r.Output, &output) != nil {
		return row // none, or no object
	}
	row.output = map[string]any{}
	for key, value := range output {
		switch value.(type) {
		case string, float64, bool:
			row.output[key] = value
		}
	}
	return row
}

func taskView(rows []taskRow) table.View[taskRow] {
	params, outputs := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		for key := range r.params {
			params[key] = true
		}
		for key := range r.output {
			outputs[key] = true
		}
	}
	columns := []table.Column[taskRow]{
		{Title: "TASK", Field: "task", Cell: func(r taskRow) table.Cell { return table.Text(r.ref.String()) }},
	}
	for _, key := range slices.Sorted(maps.Keys(params)) {
		columns = append(columns, valueColumn(key, "param."+key, func(r taskRow) map[string]any { return r.params }))
	}
	columns = append(columns,
		table.Column[taskRow]{Title: "STATE", Field: "state", Cell: func(r taskRow) table.Cell {
			return table.Cell{Text: string(r.result.State), Color: report.StateColor(r.result.State)}
		}},
		table.Column[taskRow]{Title: "EXIT", Field: "exit", Right: true, Drop: 2, Cell: func(r taskRow) table.Cell { return table.Text(dash(report.ExitText(r.result.Exit))) },
			Raw: func(r taskRow) string { return report.ExitText(r.result.Exit) }},
		table.Column[taskRow]{Title: "RAN", Field: "run_seconds", Right: true, Drop: 3,
			Cell: func(r taskRow) table.Cell { return table.Text(screen.Span(screen.Seconds(r.result.RunSeconds))) },
			Raw:  func(r taskRow) string { return strconv.FormatFloat(r.result.RunSeconds, 'f', -1, 64) }},
		table.Column[taskRow]{Title: "MACHINE", Field: "machine", Drop: 4, Cell: func(r taskRow) table.Cell { return table.Text(dash(r.result.Machine)) },
			Raw: func(r taskRow) string { return r.result.Machine }},
	)
	for _, key := range slices.Sorted(maps.Keys(outputs)) {
		columns = append(columns, valueColumn(key, "output."+key, func(r taskRow) map[string]any { return r.output }))
	}
	columns = append(columns, table.Column[taskRow]{Title: "WHY", Field: "reason", Drop: 1, Shrink: 12,
		Cell: func(r taskRow) table.Cell { return table.Text(r.result.Reason) }})
	return table.View[taskRow]{
		Name: func(r taskRow) string { return r.ref.String() }, Value: func(r taskRow) any { return r.result },
		Columns: columns,
	}
}

// valueColumn shows one parameter or one value of the output.
func valueColumn(key, field string, of func(taskRow) map[string]any) table.Column[taskRow] {
	text := func(r taskRow) string {
		if v, ok := of(r)[key]; ok {
			return job.ParamText(v)
		}
		return ""
	}
	return table.Column[taskRow]{Title: key, Field: field, Shrink: 8, Raw: text,
		Cell: func(r taskRow) table.Cell { return table.Text(dash(text(r))) }}
}
