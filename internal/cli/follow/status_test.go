package follow

import (
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// The bar of a group counts each task once, however often its record changes.
func TestCount(t *testing.T) {
	t.Parallel()
	started := noon.Add(-10 * time.Minute)
	c := count{title: "job 1842", total: 12}
	for index, states := range map[int][]job.State{
		1: {job.Running, job.Succeeded}, 2: {job.Running, job.Queued, job.Running, job.Failed}, 3: {job.Succeeded},
		4: {job.Cancelled}, 5: {job.Queued, job.Running}, 6: {job.Queued},
	} {
		for _, state := range states {
			c.take(queue.TaskRef(1842, index), &job.Record{State: state, StartedAt: &started})
		}
	}
	if c.take(queue.TaskRef(1842, 6), &job.Record{State: job.Queued}) {
		t.Error("the same state is news")
	}
	if got, want := c.bar(noon), "job 1842  ████████················ 4/12 done, 1 failed, 1 cancelled, 1 running, about 20 min left"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A guess is made once there is something to go by, and is as rough as it is unsure.
func TestRemaining(t *testing.T) {
	t.Parallel()
	if remaining(enough-1, 10, time.Hour) != 0 || remaining(10, 10, time.Hour) != 0 || remaining(5, 10, 0) != 0 {
		t.Error("a guess out of nothing")
	}
	for d, want := range map[time.Duration]string{
		2 * time.Second: "10 s", 47 * time.Second: "50 s", 200 * time.Second: "3 min", 5*time.Hour + 40*time.Minute: "6 h", 60 * time.Hour: "3 days",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v is said as %q, not %q", d, got, want)
		}
	}
}

// The line of one job says what is known, and no more.
func TestLineOfOne(t *testing.T) {
	t.Parallel()
	ref, started := queue.JobRef(7), noon.Add(-125*time.Second)
	busy, used := 87.4, int64(8090)
	running := &job.Record{State: job.Running, Machine: "titan", StartedAt: &started, Devices: []string{"GPU-a"}}
	machine := func(gpus ...queue.GPU) *queue.Machine {
		return &queue.Machine{Name: "titan", GPUs: gpus, Progress: map[string]job.Progress{"7": {Done: 11, Total: 54, Text: "epochs"}}}
	}
	full := queue.GPU{UUID: "GPU-a", Index: 3, UtilizationPercent: &busy, MemoryUsedMB: &used, MemoryTotalMB: 24576}
	for _, c := range []struct {
		o    one
		want string
	}{
		{one{ref: ref, queued: started}, "job 7 queued 2m05s"},
		{one{ref: ref, rec: running}, "job 7 running 2m05s on titan"},
		{one{ref: ref, rec: running, machine: machine(full)}, "job 7 running 2m05s on titan  GPU 3: 87 %, 7.9 of 24 GiB  █▋······ 11/54 epochs"},
		{one{ref: ref, rec: running, machine: machine(queue.GPU{UUID: "GPU-a"})}, "job 7 running 2m05s on titan  █▋······ 11/54 epochs"},
		{one{ref: ref, rec: running, machine: &queue.Machine{Name: "atlas", GPUs: []queue.GPU{full}}}, "job 7 running 2m05s on titan"},
		{one{ref: ref, rec: &job.Record{State: job.Queued, QueuedAt: started, ReasonText: "waits"}}, "job 7 queued 2m05s: waits"},
		{one{ref: ref, rec: &job.Record{State: job.Failed, ReasonText: "exit 3"}}, "job 7 failed: exit 3"},
	} {
		if got := c.o.line(noon); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
