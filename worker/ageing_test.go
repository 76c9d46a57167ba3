package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestAgeBooks(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	lane, other := laneOf(job.BandLow, "one", "lab", 1).Lane, laneOf(job.BandLow, "two", "lab", 2).Lane
	var b ageBooks
	if b.note(lane, now.Add(-AgeAfter+1), true, now, AgeAfter) {
		t.Error("it is of age a moment too early")
	}
	if !b.note(lane, now.Add(-AgeAfter), true, now, AgeAfter) {
		t.Error("it is not of age in time")
	}
	b.note(other, now.Add(-time.Minute), true, now, AgeAfter)
	if w := b.waits(now.Add(time.Hour)); w[lane] != AgeAfter+time.Hour || w[other] != time.Hour+time.Minute {
		t.Errorf("an hour later they have waited %v", w)
	}
	if b.note(other, time.Time{}, false, now, AgeAfter) || len(b.waits(now)) != 1 {
		t.Errorf("a lane whose jobs all run has none that waits: %v", b.waits(now))
	}
	b.forget(map[job.Lane]int{other: 3})
	if len(b.waits(now)) != 0 {
		t.Errorf("a lane that holds nothing is kept: %v", b.waits(now))
	}
}

// However many lanes there are, each has its turn to be looked at.
func TestAgeBooksTakeTurns(t *testing.T) {
	t.Parallel()
	var lanes []queue.LaneInfo
	for i := range 3*agesAtATime + 5 {
		lanes = append(lanes, laneOf(job.BandLow, job.ShapeID(fmt.Sprint("s", i)), "lab", 1))
	}
	var b ageBooks
	seen := map[job.Lane]bool{}
	for range 4 {
		some := b.turn(lanes)
		if len(some) != agesAtATime {
			t.Fatalf("%d at a time", len(some))
		}
		for _, l := range some {
			seen[l.Lane] = true
		}
	}
	if len(seen) != len(lanes) {
		t.Errorf("%d of %d lanes had their turn", len(seen), len(lanes))
	}
	if few := b.turn(lanes[:3]); len(few) != 3 {
		t.Errorf("of three lanes %d", len(few))
	}
}

// A job of low priority that has waited long is next, before normal ones that have just come: it moves.
func TestLowPriorityMoves(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	w := h.work("alpha", func(c *Config) { c.AgeAfter = 40 * time.Second })
	gate := filepath.Join(t.TempDir(), "go")
	first := h.submit(job.Requirements{GPUs: 1}, "wait="+gate, "exit=0")
	h.running(queue.JobRef(first))
	low := job.Job{Requirements: job.Requirements{GPUs: 1}, Spec: h.spec("exit=0"), SubmittedAt: time.Now().Add(-time.Hour)}
	priority := 10
	low.Spec.Priority = &priority
	old := h.send(low)
	lane := queue.LaneOf("lab", low.Requirements, priority)
	waitFor(t, "the low one is known to have waited", func() bool { return w.ages.waits(time.Now())[lane] >= time.Hour })
	var fresh []uint64
	for range 3 {
		fresh = append(fresh, h.submit(job.Requirements{GPUs: 1}, "exit=0"))
	}
	waitFor(t, "all are on lanes", func() bool {
		held, err := h.queue.LaneCounts(t.Context())
		return err == nil && held[lane] == 1 && held[queue.LaneOf("lab", low.Requirements, job.DefaultPriority)] == 4
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	moved := h.result(queue.JobRef(old))
	for _, n := range fresh {
		if r := h.result(queue.JobRef(n)); r.State != job.Succeeded || r.StartedAt.Before(*moved.StartedAt) {
			t.Errorf("job %d, which had just come, started %s before it", n, moved.StartedAt.Sub(*r.StartedAt))
		}
	}
}

// waitFor asks until it is so: for what has no event.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !so(); pause(t.Context(), 10*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
