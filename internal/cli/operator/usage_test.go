package operator

import (
	"math"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// Hours of every attempt count, also of those that failed elsewhere; groups are counted by their tasks; a second round
// does not count the first one's attempts again.
func TestUsageBy(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	attempt := func(round int, machine string, hours float64, gpus ...string) job.Attempt {
		end := at.Add(time.Duration(hours * float64(time.Hour)))
		return job.Attempt{Round: round, Machine: machine, Devices: gpus, StartedAt: at, EndedAt: &end}
	}
	joules := 7200.0
	util := func(mean float64) job.GPUStats {
		return job.GPUStats{Utilization: &job.CountedStat{Stat: job.Stat{Mean: mean}}}
	}
	first := attempt(1, "titan", 1, "a")
	results := []job.Result{
		{User: "ada", Project: "vision", Machine: "titan", State: job.Failed, Round: 1, StartedAt: &at, QueuedSeconds: 10, RunSeconds: 3600,
			Attempts: []job.Attempt{first}, GPUMonitoring: &job.Aggregate{GPUStats: map[string]job.GPUStats{"0": util(20)}}},
		{User: "ada", Project: "vision", Machine: "atlas", State: job.Succeeded, Round: 2, StartedAt: &at, QueuedSeconds: 30, RunSeconds: 3 * 3600,
			Attempts:      []job.Attempt{first, attempt(2, "titan", 0.5, "a", "b"), attempt(2, "atlas", 3, "c", "d")},
			Report:        &job.Report{EnergyJoules: &joules},
			GPUMonitoring: &job.Aggregate{GPUStats: map[string]job.GPUStats{"0": util(90), "1": util(70)}}},
		{User: "ben", Project: "vision", State: job.Cancelled, Round: 1},
		{User: "ada", Project: "vision", State: job.Succeeded, Tasks: map[job.State]int{job.Succeeded: 2}},
	}
	same := func(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 1e-9 }
	users := usageBy(results, "user")
	if len(users) != 2 || users[0].Who != "ada" || users[1].Who != "ben" {
		t.Fatalf("users %+v", users)
	}
	ada := users[0]
	if ada.Jobs != 2 || ada.Succeeded != 1 || ada.GPUHours != 1+1+6 || !same(ada.EfficiencyPercent, (20+3*90+3*70)/7.0) || !same(ada.EnergyWh, 2) || ada.WaitedSeconds != 20 {
		t.Errorf("ada: %+v, busy %v", ada, ada.EfficiencyPercent)
	}
	if ben := users[1]; ben.GPUHours != 0 || ben.EfficiencyPercent != nil || ben.EnergyWh != nil || ben.Jobs != 1 {
		t.Errorf("ben: %+v", ben)
	}
	hours := map[string]float64{}
	for _, u := range usageBy(results, "machine") {
		hours[u.Who] = u.GPUHours
	}
	if hours["titan"] != 2 || hours["atlas"] != 6 || hours["(never started)"] != 0 {
		t.Errorf("by machine: %v", hours)
	}
	if p := usageBy(results, "project"); len(p) != 1 || p[0].Jobs != 3 || p[0].GPUHours != 8 {
		t.Errorf("by project: %+v", p)
	}
}
