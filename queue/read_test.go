package queue

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berthq/berth/job"
)

func TestListPagesNewestFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	for i := range 25 {
		j := newJob(fmt.Sprint("job ", i%3))
		if i%5 == 0 {
			j.Project = "other"
		}
		b.submit(j)
	}
	if _, err := b.q.cancelJob(b.ctx, JobRef(20), job.Cancel{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	var seen []uint64
	for before := uint64(0); ; {
		views, next, err := b.q.List(b.ctx, Filter{}, Page{Before: before, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			seen = append(seen, v.Number)
		}
		if before = next; next == 0 {
			break
		}
	}
	if len(seen) != 25 || seen[0] != 25 || seen[24] != 1 {
		t.Errorf("pages: %v", seen)
	}
	for name, c := range map[string]struct {
		f    Filter
		want int
	}{
		"project":   {Filter{Project: "other"}, 5},
		"cancelled": {Filter{States: []job.State{job.Cancelled}}, 1},
		"name":      {Filter{Name: "job 1"}, 8},
		"nobody's":  {Filter{User: "eve"}, 0},
	} {
		views, next, err := b.q.List(b.ctx, c.f, Page{})
		if err != nil || len(views) != c.want || next != 0 {
			t.Errorf("%s: %d jobs, next %d, %v; want %d", name, len(views), next, err, c.want)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	for range 4 {
		b.submit(newJob("x"))
	}
	eventually(t, "all are on their lane", func() bool { return b.onLanes() == 4 })
	m := b.machine("m1")
	if err := m.claim().Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	c := m.claim()
	if err := b.q.Announce(b.ctx, Machine{Name: "m1", Running: []string{c.Ref().String()}}); err != nil {
		t.Fatal(err)
	}
	got, err := b.q.Counts(b.ctx)
	if err != nil || got != (Counts{Jobs: 4, Queued: 2, Running: 1, Finished: 1, Machines: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Before the first worker comes, what was submitted waits all the same; a group that the clerk keeps is not counted as
// one more.
func TestCountsBeforeAndBesideTheClerk(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.submit(newJob("x"))
	b.submit(newJob("y"))
	if got, err := b.q.Counts(b.ctx); err != nil || got.Queued != 2 {
		t.Errorf("without a clerk: %+v, %v", got, err)
	}
	b.background(b.q.RunClerk)
	eventually(t, "both are on their lane", func() bool { return b.onLanes() == 2 })
	if h, err := b.q.Health(b.ctx); err != nil || h.Undispatched != 0 {
		t.Errorf("%d undispatched, %v", h.Undispatched, err)
	}
	group := newJob("many")
	group.Tasks = &job.Tasks{Indexes: "1-3", Count: 3, MaxConcurrent: 1}
	b.submit(group)
	eventually(t, "its first task is on a lane", func() bool { return b.onLanes() == 3 })
	if got, err := b.q.Counts(b.ctx); err != nil || got.Queued != 3 {
		t.Errorf("beside a group: %+v, %v", got, err)
	}
	if h, err := b.q.Health(b.ctx); err != nil || h.Undispatched != 0 || len(h.Streams) == 0 || h.Version == "" {
		t.Errorf("health %+v, %v", h, err)
	}
}

// Who reads leaves nothing behind: a program that waits for many jobs one by one would fill the broker.
func TestReadersLeaveNoConsumers(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	for range 5 {
		b.submit(newJob("x"))
		c := m.claim()
		if err := c.Finish(b.ctx, succeeded); err != nil {
			t.Fatal(err)
		}
		if _, err := b.q.WaitResult(b.ctx, c.Ref()); err != nil {
			t.Fatal(err)
		}
		for range b.q.Results(b.ctx, ResultOptions{}) {
			break // who stops early leaves nothing either
		}
		if _, err := b.q.TaskStates(b.ctx, "lab", c.Ref().Number); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no consumer is left", func() bool {
		s, err := b.q.js.Stream(b.ctx, StreamResults)
		return err == nil && s.CachedInfo().State.Consumers == 0
	})
}

func TestResolve(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	first := newJob("train")
	first.ID = "01890000-aaaa-7000-8000-000000000001"
	second := newJob("train")
	second.ID = "01890000-bbbb-7000-8000-000000000002"
	b.submit(first)
	b.submit(second)
	me := Me{Project: "lab", User: "ada"}
	for text, want := range map[string]Ref{
		"1": JobRef(1), "2.17": TaskRef(2, 17), "@last": JobRef(2), "train": JobRef(2), "01890000-aa": JobRef(1),
	} {
		if got, err := b.q.Resolve(b.ctx, text, me); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := b.q.Resolve(b.ctx, "01890000-", me); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("two jobs: %v", err)
	}
	if _, err := b.q.Resolve(b.ctx, "nothing", me); !errors.Is(err, ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	if _, err := b.q.Resolve(b.ctx, "@last", Me{Project: "lab", User: "eve"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("@last of nobody: %v", err)
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	free := int64(20000)
	for _, name := range []string{"gpu2.lab.example", "gpu1.lab.example"} {
		m := Machine{Name: name, GPUs: []GPU{{UUID: "GPU-1", MemoryFreeMB: &free, State: "ready"}}}
		for range 2 {
			if err := b.q.Announce(b.ctx, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := b.q.Machines(b.ctx)
	if err != nil || len(all) != 2 || all[0].Name != "gpu1.lab.example" || *all[0].GPUs[0].MemoryFreeMB != free {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := b.q.Depart(b.ctx, "gpu1.lab.example"); err != nil {
		t.Fatal(err)
	}
	if all, err = b.q.Machines(b.ctx); err != nil || len(all) != 1 {
		t.Errorf("after one left: %+v, %v", all, err)
	}
}
