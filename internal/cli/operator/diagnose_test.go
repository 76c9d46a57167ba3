package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/internal/cli/checkup"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// What the doctor finds, one trouble at a time; a healthy queue has nothing but "ok".
func TestDiagnose(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	free, util := int64(20000), 3.0
	healthy := func() patient {
		return patient{
			version: "v1.2.0", now: now,
			health: queue.Health{
				Server: "nats://127.0.0.1:4222", Version: "2.15.2", RTT: time.Millisecond, Clock: now, Asked: now,
				Streams: []queue.StreamHealth{{Name: "BERTH_JOBS", MaxBytes: -1, Replicas: 1}, {Name: "BERTH_LANES", MaxBytes: -1, Replicas: 1}},
				Store:   queue.StoreUse{Used: 1 << 30, Limit: 100 << 30}, Skew: map[string]time.Duration{"titan": 0},
			},
			machines: []queue.Machine{{Name: "titan", Version: "v1.2.0", GPUs: []queue.GPU{{UUID: "GPU-1", Name: "A10", MemoryTotalMB: 24576,
				MemoryFreeMB: &free, UtilizationPercent: &util, State: "ready"}}}},
		}
	}
	for _, f := range diagnose(healthy()) {
		if f.Verdict != checkup.Works || f.Do != "" {
			t.Errorf("a healthy queue: %+v", f)
		}
	}
	waits := func(reason string, since time.Duration) queue.JobView {
		return queue.JobView{Ref: queue.JobRef(7), Number: 7, State: job.Queued, Reason: reason, QueuedAt: now.Add(-since)}
	}
	for name, c := range map[string]struct {
		hurt    func(p *patient)
		what    string
		verdict checkup.Verdict
		say     string // in what was found or is to do
	}{
		"slow network":      {func(p *patient) { p.health.RTT = time.Second }, "broker", checkup.Half, "network"},
		"a stream is gone":  {func(p *patient) { p.health.Streams[1].Missing = true }, "streams", checkup.Fails, "BERTH_LANES"},
		"no leader":         {func(p *patient) { p.health.Streams[0].Cluster = true }, "streams", checkup.Fails, "without a leader: BERTH_JOBS"},
		"a copy lags":       {func(p *patient) { p.health.Streams[0].Behind = []string{"n2"} }, "streams", checkup.Half, "BERTH_JOBS (n2)"},
		"store nearly full": {func(p *patient) { p.health.Store.Used = 95 << 30 }, "store", checkup.Half, "95 % of 100 GiB"},
		"own clock wrong":   {func(p *patient) { p.health.Asked = now.Add(-time.Hour) }, "clocks", checkup.Half, "this machine's clock is 1h apart"},
		"a machine's clock": {func(p *patient) { p.health.Skew["titan"] = -3 * time.Minute }, "clocks", checkup.Half, "the clock of titan is 3m apart"},
		"an older worker":   {func(p *patient) { p.machines[0].Version = "v1.1.0" }, "versions", checkup.Half, "v1.1.0 on titan"},
		"no machine":        {func(p *patient) { p.machines = nil }, "machines", checkup.Fails, "berth up"},
		"all drain":         {func(p *patient) { p.machines[0].Draining = true }, "machines", checkup.Fails, "berth undrain titan"},
		"one of two drains": {func(p *patient) {
			p.machines = append(p.machines, queue.Machine{Name: "b", Draining: true, Version: "v1.2.0"})
		}, "machines", checkup.Half, "draining: b"},
		"a worker warns":     {func(p *patient) { p.machines[0].Warnings = []string{"JAX sees fewer GPUs"} }, "titan", checkup.Half, "JAX sees fewer"},
		"no metrics":         {func(p *patient) { p.machines[0].GPUs[0].UtilizationPercent = nil }, "telemetry", checkup.Half, "titan"},
		"a sick card":        {func(p *patient) { p.machines[0].GPUs[0].State, p.machines[0].GPUs[0].Why = "quarantined", "XID 79" }, "GPU", checkup.Half, "XID 79"},
		"a dirty card":       {func(p *patient) { p.machines[0].GPUs[0].State = "dirty" }, "GPU", checkup.Half, "still holds memory"},
		"nobody dispatches":  {func(p *patient) { p.health.Undispatched = 3; p.waiting = []queue.JobView{waits("", time.Hour)} }, "dispatch", checkup.Fails, "3 jobs on no lane"},
		"just submitted":     {func(p *patient) { p.health.Undispatched = 1; p.waiting = []queue.JobView{waits("", time.Second)} }, "dispatch", checkup.Works, "1 job on the way"},
		"never fits":         {func(p *patient) { p.waiting = []queue.JobView{waits("NeverFits", time.Minute)} }, "jobs", checkup.Half, "berth explain 7"},
		"held":               {func(p *patient) { p.waiting = []queue.JobView{waits("Held", time.Minute)} }, "jobs", checkup.Half, "berth release 7"},
		"waits for days":     {func(p *patient) { p.waiting = []queue.JobView{waits("Resources", 50*time.Hour)} }, "jobs", checkup.Half, "more than a day: 7"},
		"dead letters":       {func(p *patient) { p.dead = 2 }, "dead", checkup.Half, "berth dead ls"},
		"waits for its time": {func(p *patient) { p.waiting = []queue.JobView{waits("BeginTime", 50*time.Hour)} }, "jobs", checkup.Works, "none waits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := healthy()
			c.hurt(&p)
			for _, f := range diagnose(p) {
				if f.What == c.what && f.Verdict == c.verdict && strings.Contains(f.Found+" "+f.Do, c.say) {
					return
				}
			}
			t.Errorf("not found: %s %s %q in\n%+v", c.what, c.verdict, c.say, diagnose(p))
		})
	}
}
