package operator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/job"
)

// usage is what one user, project or machine has had of the fleet.
type usage struct {
	Who       string  `json:"who"`
	Jobs      int     `json:"jobs"` // that ended, the tasks of groups one by one
	Succeeded int     `json:"succeeded"`
	GPUHours  float64 `json:"gpu_hours"` // of all attempts, also those that failed
	// EfficiencyPercent is the mean utilisation of the GPUs it held, each hour of a GPU counted alike. Absent: nothing was
	// measured.
	EfficiencyPercent *float64 `json:"efficiency_percent,omitempty"`
	EnergyWh          *float64 `json:"energy_wh,omitempty"` // as far as cards count it
	WaitedSeconds     float64  `json:"waited_seconds"`      // mean from submit to start, of those that started

	measured, busy float64 // GPU hours, and those times utilisation
	joules         float64
	metered        bool
	started        int
	waited         float64
}

// add counts one result.
func (u *usage) add(r job.Result) {
	u.Jobs++
	if r.State == job.Succeeded {
		u.Succeeded++
	}
	if r.StartedAt != nil {
		u.started++
		u.waited += r.QueuedSeconds
	}
	if r.Report != nil && r.Report.EnergyJoules != nil {
		u.metered = true
		u.joules += *r.Report.EnergyJoules
	}
	if r.GPUMonitoring == nil {
		return
	}
	hours := r.RunSeconds / time.Hour.Seconds()
	for _, g := range r.GPUMonitoring.GPUStats {
		if g.Utilization != nil {
			u.measured += hours
			u.busy += hours * g.Utilization.Mean
		}
	}
}

// usageBy sums results up. by is user, project or machine; an attempt on another machine than the last counts there.
// Groups are left out: their tasks are counted.
func usageBy(results []job.Result, by string) []usage {
	all := map[string]*usage{}
	of := func(who string) *usage {
		if all[who] == nil {
			all[who] = &usage{Who: who}
		}
		return all[who]
	}
	for _, r := range results {
		if r.Tasks != nil {
			continue
		}
		who := whose(r, by, r.Machine)
		of(who).add(r)
		for _, a := range r.Attempts {
			if a.EndedAt != nil && max(a.Round, 1) == max(r.Round, 1) { // each round's result lists those before it too
				of(whose(r, by, a.Machine)).GPUHours += a.EndedAt.Sub(a.StartedAt).Hours() * float64(len(a.Devices))
			}
		}
	}
	list := make([]usage, 0, len(all))
	for _, u := range all {
		list = append(list, u.finished())
	}
	slices.SortFunc(list, func(a, b usage) int {
		return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(b.Jobs, a.Jobs), strings.Compare(a.Who, b.Who))
	})
	return list
}

func whose(r job.Result, by, machine string) string {
	switch by {
	case "project":
		return r.Project
	case "machine":
		return cmp.Or(machine, "(never started)")
	}
	return r.User
}

func (u usage) finished() usage {
	if u.measured > 0 {
		mean := u.busy / u.measured
		u.EfficiencyPercent = &mean
	}
	if u.metered {
		wh := u.joules / 3600
		u.EnergyWh = &wh
	}
	if u.started > 0 {
		u.WaitedSeconds = u.waited / float64(u.started)
	}
	return u
}
