package follow

import (
	"context"

	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

// Input gathers what the report is drawn from. What cannot be had is left out.
func Input(ctx context.Context, q *queue.Queue, r job.Result) report.Input {
	in := report.Input{Result: r}
	if j, err := q.Job(ctx, r.Number); err == nil {
		in.Requirements = &j.Requirements
	}
	ref := queue.JobRef(r.Number)
	if r.Index != nil {
		ref = queue.TaskRef(r.Number, *r.Index)
	}
	in.Utilization, in.CardMB = map[string][]float64{}, map[string]int64{}
	var series telemetry.Series
	if err := q.Series(ctx, r.Project, ref, r.Attempt, &series); err == nil {
		for key, s := range series.GPUs {
			in.Utilization[key] = s.Utilization
		}
	}
	machines, err := q.Machines(ctx)
	if err != nil {
		return in
	}
	for _, m := range machines {
		for _, gpu := range m.GPUs {
			in.CardMB[gpu.UUID] = gpu.MemoryTotalMB
		}
	}
	return in
}
