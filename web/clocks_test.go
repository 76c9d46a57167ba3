package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// Machines whose clocks are hours off run jobs: every page shows the dashboard's time, and says which clock is wrong.
func TestMachinesWithWrongClocks(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{3 * time.Hour, -5 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			began := time.Now().Add(-time.Minute)
			q, err := queue.Open(t.Context(), h.broker.Connect(), queue.Options{Now: func() time.Time { return time.Now().Add(off) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(q.Close)
			beats := h.beats(t)
			if err := q.Announce(t.Context(), machineWithGPU()); err != nil {
				t.Fatal(err)
			}
			awaitBeat(t, beats, "the machine is known", func(beat) bool { return len(h.s.hub.fleet()) == 1 })
			n := h.submit("elsewhere", func(j *job.Job) { j.Requirements.GPUs = 1 })
			h.runOn(q, n, "GPU-1")
			h.list("state=succeeded", func(total int, _ []row) bool { return total == 1 })

			ours := func(what string, at *time.Time) {
				t.Helper()
				if at == nil || at.Before(began) || at.After(time.Now().Add(time.Minute)) {
					t.Errorf("%s: %v, want about %v", what, at, time.Now())
				}
			}
			read := func(path string, to any) {
				t.Helper()
				code, text := h.ask("GET", "/api/v1/"+path, "")
				if err := json.Unmarshal([]byte(text), to); err != nil || code != 200 {
					t.Fatalf("%s: %d %v: %s", path, code, err, text)
				}
			}
			var list jobsAnswer
			read("jobs", &list)
			ours("the list's start", list.Jobs[0].StartedAt)
			ours("the list's end", list.Jobs[0].EndedAt)
			var one struct {
				StartedAt *time.Time `json:"started_at"`
				Past      []job.Attempt
			}
			read(fmt.Sprintf("jobs/%d", n), &one)
			ours("the job's start", one.StartedAt)
			ours("the attempt's start", &one.Past[0].StartedAt)
			ours("the attempt's end", one.Past[0].EndedAt)
			var line timelineAnswer
			read("timeline?minutes=60", &line)
			if len(line.Segments) != 1 {
				t.Fatalf("the picture of the last hour has %d runs, want 1", len(line.Segments))
			}
			ours("the picture's start", &line.Segments[0].Start)
			ours("the picture's end", &line.Segments[0].End)
			var machines machinesAnswer
			read("machines", &machines)
			ours("the machine was heard of", &machines.Machines[0].At)
			if warned := strings.Join(machines.Machines[0].Warnings, " "); !strings.Contains(warned, "its clock is "+off.Abs().String()) {
				t.Errorf("the page says %q about the clock", warned)
			}
			var past historyAnswer
			read("machines/m1/history", &past)
			if got := time.Duration(past.AheadSeconds * float64(time.Second)); (got - off).Abs() > time.Minute {
				t.Errorf("its history is said to be %v ahead, want %v", got, off)
			}
		})
	}
}
