package explain

import (
	"context"
	"slices"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

const (
	aheadMost   = 8   // lanes of higher bands that are named
	runningMost = 256 // runs whose end is looked up
)

// Gather reads what Why needs about a job.
func Gather(ctx context.Context, q *queue.Queue, ref queue.Ref, now time.Time) (Facts, error) {
	f := Facts{Now: now}
	var err error
	if f.Job, err = q.Show(ctx, ref); err != nil {
		return f, err
	}
	if f.Job.State != job.Queued && f.Job.State != job.Held || f.Job.Tasks != nil && f.Job.Tasks.Released > 0 {
		if f.Job.Tasks != nil && f.Job.State == job.Queued {
			f.Job.State = job.Running // some of its tasks have been let go
		}
		return f, nil
	}
	if err := f.fleet(ctx, q); err != nil {
		return f, err
	}
	if f.Place, err = q.Position(ctx, f.Job); err != nil {
		return f, err
	}
	if f.Ahead, err = q.Ahead(ctx, f.Place.Lane, aheadMost); err != nil {
		return f, err
	}
	if f.Reserved, _, err = q.Reservation(ctx, ref); err != nil {
		return f, err
	}
	if ref.Task {
		group, err := q.Show(ctx, queue.JobRef(ref.Number))
		if err != nil {
			return f, err
		}
		f.Group = &group
	}
	return f, f.history(ctx, q)
}

// fleet reads the machines and the project: enough for the word.
func (f *Facts) fleet(ctx context.Context, q *queue.Queue) (err error) {
	if f.Machines, err = q.Machines(ctx); err != nil {
		return err
	}
	f.Never = neverOf(f.Machines, f.Job.Needs)
	if f.Kept, err = q.Reservations(ctx); err != nil {
		return err
	}
	f.Project, err = q.Project(ctx, f.Job.Project)
	return err
}

// neverOf asks of each machine, as its own worker would with everything free, whether it could ever run the job.
func neverOf(machines []queue.Machine, needs job.Requirements) map[string]string {
	never := map[string]string{}
	for _, m := range machines {
		o := gpuslots.Options{Machine: m.Name, CPUs: m.CPUs, MemoryMB: m.MemoryMB, Labels: m.Labels}
		for _, g := range m.GPUs {
			o.Devices = append(o.Devices, telemetry.Device{UUID: g.UUID, Index: g.Index, Name: g.Name, MemoryTotalMB: g.MemoryTotalMB,
				ComputeCapability: g.ComputeCapability})
			o.SlotsPerGPU = max(o.SlotsPerGPU, g.Slots)
		}
		req := needs
		req.Frameworks = nil // only the machine itself knows
		if pool, err := gpuslots.New(o); err == nil {
			if err := pool.CanEver(req); err != nil {
				never[m.Name] = err.Error()
			}
		}
	}
	return never
}

// history reads when what runs may end.
func (f *Facts) history(ctx context.Context, q *queue.Queue) error {
	if f.Job.Needs.GPUs == 0 {
		return nil
	}
	for _, m := range f.Machines {
		for _, name := range m.Running {
			if len(f.Running) == runningMost {
				break
			}
			if run, ok := runOf(ctx, q, name, f.Project); ok {
				f.Running = append(f.Running, run)
			}
		}
	}
	results, err := q.RecentRuns(ctx, f.Job.Project)
	if err != nil {
		return err
	}
	var took []time.Duration
	for _, r := range results {
		if r.GPUInfo != nil && r.State == job.Succeeded {
			took = append(took, time.Duration(r.RunSeconds*float64(time.Second)))
		}
	}
	f.Typical, f.TypicalN = Median(took), len(took)
	return nil
}

// Median is the middle one, 0 of none.
func Median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func runOf(ctx context.Context, q *queue.Queue, name string, project queue.ProjectUse) (Run, bool) {
	ref, err := queue.ParseRef(name)
	if err != nil {
		return Run{}, false
	}
	v, err := q.Show(ctx, ref)
	if err != nil || v.State != job.Running || v.StartedAt == nil {
		return Run{}, false // it has just ended
	}
	run := Run{Job: name, Machine: v.Machine, Since: *v.StartedAt, GPUs: v.Devices, Limit: v.TimeLimit.Std()}
	if run.Limit == 0 && v.Project == project.Name {
		run.Limit = project.DefaultTimeLimit.Std()
	}
	return run, true
}

// Reasons gives the views of a list that wait without a reason their word and sentence, as far as the fleet alone shows.
// It costs a request for the machines, one for the reservations and one for each project.
func Reasons(ctx context.Context, q *queue.Queue, views []queue.JobView, now time.Time) error {
	var machines []queue.Machine
	var kept []queue.Reservation
	projects := map[string]queue.ProjectUse{}
	asked := false
	for i := range views {
		v := &views[i]
		if v.State != job.Queued || v.Tasks != nil && v.Tasks.Released > 0 {
			continue
		}
		if !asked {
			var err error
			if machines, err = q.Machines(ctx); err != nil {
				return err
			}
			if kept, err = q.Reservations(ctx); err != nil {
				return err
			}
			asked = true
		}
		p, known := projects[v.Project]
		if !known {
			var err error
			if p, err = q.Project(ctx, v.Project); err != nil {
				return err
			}
			projects[v.Project] = p
		}
		f := Facts{Job: *v, Machines: machines, Kept: kept, Project: p, Never: neverOf(machines, v.Needs), Now: now}
		all := f.machines()
		if len(all) > 0 && count(all, "") > 0 && !overQuota(p, v.Needs.GPUs) {
			if word, text := ownReason(f); word != "" {
				v.Reason, v.ReasonText = word, text
			}
			continue // there is room: whether others are in front is for explain
		}
		v.Reason, v.ReasonText = reason(f, all)
	}
	return nil
}
