package explain_test

import (
	"fmt"
	"time"

	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// A job waits for a machine whose one GPU is taken by a run with a time limit.
func ExampleWhy() {
	now := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	needs := job.Requirements{GPUs: 1}
	shape := string(job.ShapeOf(needs).ID)
	e := explain.Why(explain.Facts{
		Now:   now,
		Job:   queue.JobView{Ref: queue.JobRef(7), Project: "lab", State: job.Queued, Needs: needs, TimeLimit: job.Duration(time.Hour)},
		Place: queue.Position{Found: true},
		Machines: []queue.Machine{{
			Name:     "m1",
			GPUs:     []queue.GPU{{UUID: "GPU-a", Name: "A100", Slots: 1, Active: 1, State: "ready", Jobs: []string{"5"}}},
			Refusals: map[string]string{shape: "needs 1 GPU; GPU 0 is held by job 5"},
			Reasons:  map[string]string{shape: "Resources"},
		}},
		Running: []explain.Run{{Job: "5", Machine: "m1", Since: now.Add(-time.Hour), Limit: 3 * time.Hour, GPUs: []string{"GPU-a"}}},
	})
	fmt.Println(e.Reason+":", e.Text)
	fmt.Println("number", e.Position, "of its lane")
	fmt.Println("may start in", e.Estimate.StartAt.Sub(now), "by this:", e.Estimate.Basis)
	for _, m := range e.Machines {
		fmt.Println(m.Name, "GPU", m.GPUs[0].Index, m.GPUs[0].Text)
	}
	// Output:
	// Resources: m1: needs 1 GPU; GPU 0 is held by job 5
	// number 1 of its lane
	// may start in 2h0m0s by this: m1: job 5 ends at the latest by its time limit of 3h
	// m1 GPU 0 held by job 5
}
