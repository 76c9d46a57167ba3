package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func number[T any](n T) *T { return &n }

func (b *bundle) limit(project string, gpus int) {
	b.t.Helper()
	if _, err := b.q.SetProject(b.ctx, project, "root", func(p *Project) { p.MaxGPUs = &gpus }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) held(project string) int {
	b.t.Helper()
	p, err := b.q.Project(b.ctx, project)
	if err != nil {
		b.t.Fatal(err)
	}
	return p.GPUs
}

// Sixteen workers with room for everything never run more GPUs of a project than it may have, and use all of those.
func TestQuotaIsExactUnderRaces(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.limit("lab", 3)
	b.background(b.q.RunClerk)
	const jobs, workers = 40, 16
	var refs []Ref
	for range jobs {
		refs = append(refs, b.submit(newJob("small")))
	}
	var mu sync.Mutex
	now, most := 0, 0
	full := make(chan struct{}) // closed once all three run; until then nobody ends
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		now += n
		if now == 3 && most < 3 {
			close(full)
		}
		most = max(most, now)
	}
	for range workers {
		m := b.machine("m")
		b.background(func(ctx context.Context) error {
			for {
				d, err := m.tryNextIn(ctx)
				if err != nil {
					return err
				}
				c, err := d.Claim(ctx, []string{"GPU-0"})
				if isDealtWith(err) {
					continue
				} else if err != nil {
					return err
				}
				count(1)
				select {
				case <-full:
				case <-ctx.Done():
					return ctx.Err()
				}
				count(-1)
				if err := c.Finish(b.ctx, succeeded); err != nil {
					return err
				}
			}
		})
	}
	for _, ref := range refs {
		b.wait(ref)
	}
	mu.Lock()
	defer mu.Unlock()
	if most != 3 {
		t.Errorf("%d GPUs were in use at once, the quota is 3", most)
	}
	if n := b.held("lab"); n != 0 {
		t.Errorf("%d GPUs are still counted", n)
	}
}

// A job over the quota stays where it is and says so; room that a dead worker held is found again.
func TestQuotaOfADeadWorker(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.limit("lab", 1)
	b.background(b.q.RunClerk)
	first, second := b.submit(newJob("first")), b.submit(newJob("second"))
	victim := b.machine("m1")
	if c := victim.claim(); c.Ref() != first {
		t.Fatalf("%s came first", c.Ref())
	}
	m := b.machine("m2")
	_, err := m.next().Claim(b.ctx, []string{"GPU-0"})
	if !errors.Is(err, ErrQuota) || !errors.Is(err, ErrStepBack) || !strings.Contains(err.Error(), "hold 1 of 1 GPUs") {
		t.Fatalf("the second claim: %v", err)
	}
	if left, limited := m.q.QuotaLeft("lab"); left != 0 || !limited {
		t.Errorf("left: %d, %v", left, limited)
	}
	victim.die()
	b.background(m.onGPU)
	for _, ref := range []Ref{first, second} {
		if r := b.wait(ref); r.State != job.Succeeded {
			t.Errorf("%s: %s", ref, r.State)
		}
	}
	if n := b.held("lab"); n != 0 {
		t.Errorf("%d GPUs are still counted", n)
	}
}

// onGPU runs everything it gets, on a GPU.
func (m *machine) onGPU(ctx context.Context) error {
	for {
		d, err := m.tryNextIn(ctx)
		if err != nil {
			return err
		}
		c, err := d.Claim(ctx, []string{"GPU-0"})
		if isDealtWith(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := c.Finish(m.ctx, succeeded); err != nil {
			return err
		}
	}
}

// A limit that is set while jobs run counts those, also after their worker was replaced.
func TestQuotaCountsWhatRunsAlready(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("long"))
	m := b.machine("m1")
	c := m.claim()
	b.limit("lab", 1)
	eventually(t, "the run is counted", func() bool { return b.held("lab") == 1 })

	state := c.State()
	m.die()
	heir := b.machine("m1")
	again, err := heir.q.Resume(b.ctx, heir.s, state)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is counted as the heir's", func() bool {
		h, _, err := b.q.readHeld(b.ctx, "lab")
		return err == nil && h.Holders[ref.String()].Session == heir.s.ID()
	})
	if err := again.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	if n := b.held("lab"); n != 0 {
		t.Errorf("%d GPUs are still counted", n)
	}
}

func TestProjectSettings(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	_, err := b.q.SetProject(b.ctx, "lab", "root", func(p *Project) {
		p.MaxQueued, p.Weight, p.DefaultTimeLimit = number(5), number(2.5), job.Duration(time.Hour)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.limit("lab", 4)
	all, err := b.q.ProjectList(b.ctx)
	if err != nil || len(all) != 1 || *all[0].MaxGPUs != 4 || *all[0].MaxQueued != 5 || all[0].EffectiveWeight() != 2.5 || all[0].By != "root" {
		t.Fatalf("projects: %+v, %v", all, err)
	}
	eventually(t, "workers know", func() bool { return b.q.Weights()["lab"] == 2.5 })
	if got := b.q.expectedLimit("lab", 0); got != time.Hour {
		t.Errorf("a run without a limit is expected to take %s", got)
	}
	for want, edit := range map[string]func(*Project){
		"max GPUs -1": func(p *Project) { p.MaxGPUs = number(-1) },
		"weight 0":    func(p *Project) { p.Weight = number(0.0) },
		"weight 1000": func(p *Project) { p.Weight = number(1000.0) },
		"negative":    func(p *Project) { p.DefaultTimeLimit = -1 },
		"max queued":  func(p *Project) { p.MaxQueued = number(-3) },
	} {
		if _, err := b.q.SetProject(b.ctx, "lab", "root", edit); !errors.Is(err, ErrBadRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := b.q.SetProject(b.ctx, "No Name", "root", func(*Project) {}); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a name that is none: %v", err)
	}
}

// What waits counts, what has ended does not.
func TestMayQueue(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	if err := b.q.MayQueue(b.ctx, "lab", 1000, 1000); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	if _, err := b.q.SetProject(b.ctx, "lab", "root", func(p *Project) { p.MaxQueued, p.MaxGPUs = number(10), number(4) }); err != nil {
		t.Fatal(err)
	}
	m := b.machine("m1")
	ref := b.submit(newJob("done"))
	if err := m.claim().Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	b.wait(ref)
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "1-8", Count: 8}
	b.submit(array)
	b.submit(newJob("single"))
	if err := b.q.MayQueue(b.ctx, "lab", 1, 4); err != nil {
		t.Errorf("one more makes ten: %v", err)
	}
	if err := b.q.MayQueue(b.ctx, "lab", 2, 4); !errors.Is(err, ErrQuota) || !strings.Contains(err.Error(), "has 9 jobs and tasks waiting, 2 more are over its limit of 10") {
		t.Errorf("two more make eleven: %v", err)
	}
	if err := b.q.MayQueue(b.ctx, "lab", 1, 5); !errors.Is(err, ErrQuota) {
		t.Errorf("wider than the project may be: %v", err)
	}
}

// What a project may submit, by its settings alone.
func TestQuotaRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p                   Project
		waiting, more, gpus int
		hold, queue         bool // it may
	}{
		"no limits":                   {Project{}, 1 << 20, 1 << 20, 1 << 10, true, true},
		"as wide as allowed":          {Project{MaxGPUs: number(4)}, 0, 1, 4, true, true},
		"wider":                       {Project{MaxGPUs: number(4)}, 0, 1, 5, false, true},
		"none allowed, none needed":   {Project{MaxGPUs: number(0)}, 0, 1, 0, true, true},
		"none allowed, one needed":    {Project{MaxGPUs: number(0)}, 0, 1, 1, false, true},
		"the last that may wait":      {Project{MaxQueued: number(10)}, 9, 1, 1, true, true},
		"one too many":                {Project{MaxQueued: number(10)}, 9, 2, 1, true, false},
		"an array over the limit":     {Project{MaxQueued: number(10)}, 0, 11, 1, true, false},
		"none may wait":               {Project{MaxQueued: number(0)}, 0, 1, 1, true, false},
		"lowered below what is there": {Project{MaxQueued: number(2)}, 5, 1, 1, true, false},
	} {
		if err := c.p.mayHold(c.gpus); (err == nil) != c.hold || err != nil && !errors.Is(err, ErrQuota) {
			t.Errorf("%s: hold: %v", name, err)
		}
		if err := c.p.mayQueue(c.waiting, c.more); (err == nil) != c.queue || err != nil && !errors.Is(err, ErrQuota) {
			t.Errorf("%s: queue: %v", name, err)
		}
	}
}
