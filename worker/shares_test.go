package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestSharesOf(t *testing.T) {
	t.Parallel()
	type hours = map[string]float64
	type gpus = map[string]int
	for name, c := range map[string]struct {
		used     hours
		machines []queue.Holdings
		want     Shares
	}{
		"nobody has had anything":       {nil, nil, Shares{}},
		"what has ended":                {hours{"a": 3.5}, nil, Shares{"a": 3.5}},
		"an hour ahead for each GPU":    {nil, []queue.Holdings{{GPUs: gpus{"a": 8}}}, Shares{"a": 8}},
		"what runs has had its hours":   {hours{"a": 1}, []queue.Holdings{{GPUs: gpus{"a": 2}, Hours: hours{"a": 30}}}, Shares{"a": 33}},
		"on all machines":               {hours{"b": 1}, []queue.Holdings{{GPUs: gpus{"a": 1}}, {GPUs: gpus{"a": 2, "b": 1}}}, Shares{"a": 3, "b": 2}},
		"a machine without runs":        {hours{"a": 1}, []queue.Holdings{{}}, Shares{"a": 1}},
		"a worker that counts no hours": {nil, []queue.Holdings{{GPUs: gpus{"a": 4}, Hours: nil}}, Shares{"a": 4}},
	} {
		before := cmp.Diff(hours(nil), c.used)
		if d := cmp.Diff(c.want, SharesOf(c.used, c.machines...)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if after := cmp.Diff(hours(nil), c.used); after != before {
			t.Errorf("%s: what was counted has changed: %s", name, after)
		}
	}
}

// Who has announced more than the last sum says has not taken it from the others.
func TestOthersAreTheFleetButForOne(t *testing.T) {
	t.Parallel()
	fleet := queue.Holdings{GPUs: map[string]int{"a": 5, "b": 1}, Hours: map[string]float64{"a": 2}}
	own := queue.Holdings{GPUs: map[string]int{"a": 2, "b": 3, "c": 1}, Hours: map[string]float64{"a": 3}}
	want := queue.Holdings{GPUs: map[string]int{"a": 3, "b": 0}, Hours: map[string]float64{"a": 0}}
	if d := cmp.Diff(want, others(fleet, own)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What runs on one machine counts on all, and no longer when it has ended.
func TestSharesCountTheWholeFleet(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	beta := h.work("beta")
	gate := filepath.Join(t.TempDir(), "go")
	n := h.submit(job.Requirements{GPUs: 1, Machine: "alpha"}, "wait="+gate, "exit=0")
	h.running(queue.JobRef(n))
	waitFor(t, "beta knows what alpha runs", func() bool { return beta.shares.now(beta.Worker)["lab"] >= 1 })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.result(queue.JobRef(n))
	waitFor(t, "beta knows that it has ended", func() bool { return beta.shares.now(beta.Worker)["lab"] < 1 })
}

// What ended here counts at once, for whoever looks next, and not in the hands of who looked before.
func TestSharesCountWhatHasJustEnded(t *testing.T) {
	t.Parallel()
	var b shareBooks
	b.add("a", 2)
	before := b.used
	b.add("a", 1)
	b.add("b", 4)
	if d := cmp.Diff(map[string]float64{"a": 3, "b": 4}, b.used); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if before["a"] != 2 {
		t.Error("a map was changed that somebody may be reading")
	}
}

// Who has had less goes first: a project that comes later does not wait for all of one that has filled the queue.
func TestFairShareBetweenProjects(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	w := h.work("alpha")
	gate := filepath.Join(t.TempDir(), "go")
	send := func(project string, script ...string) queue.Ref {
		r, err := h.queue.Submit(t.Context(), job.Job{
			Project: project, User: "ann", Requirements: job.Requirements{GPUs: 1}, Spec: h.spec(script...),
		})
		if err != nil {
			t.Fatal(err)
		}
		return queue.JobRef(r.Number)
	}
	first := send("early", "wait="+gate, "exit=0")
	h.running(first)
	var early, late []queue.Ref
	for range 3 {
		early = append(early, send("early", "sleep=50ms"))
	}
	for range 3 {
		late = append(late, send("late", "sleep=50ms"))
	}
	for deadline := time.Now().Add(60 * time.Second); ; pause(t.Context(), 10*time.Millisecond) {
		held, err := h.queue.LaneCounts(t.Context())
		n, had := 0, w.shares.now(w.Worker)
		for _, waiting := range held {
			n += waiting
		}
		if err == nil && n == 7 && had["early"] > had["late"] {
			break // all are there, and what runs counts
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs on lanes, %v; the projects have had %v", n, err, had)
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := func(project string, refs []queue.Ref) (at time.Time) {
		for _, ref := range refs {
			r := one[job.Result](h, queue.StreamResults, "berth.results."+project+"."+ref.String())
			if r.State != job.Succeeded {
				t.Errorf("job %s: %s %s", ref, r.State, r.Reason)
			}
			if at.IsZero() || r.StartedAt.Before(at) {
				at = *r.StartedAt
			}
		}
		return at
	}
	// How they go on depends on how long each has really taken.
	if e, l := next("early", early), next("late", late); !l.Before(e) {
		t.Errorf("the project that has had more was next, %s before the other", l.Sub(e))
	}
}
