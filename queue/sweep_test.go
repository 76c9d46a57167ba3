package queue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// What still waits when the jobs stream is about to drop it ends with a result and leaves nothing behind: neither a record
// without an end nor a message on a lane. What runs, and what is younger, is left alone.
func TestJanitorSweepsWhatIsTooOld(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	running := b.submit(newJob("running"))
	c := m.claim()
	waiting := b.submit(newJob("waiting"))
	held := newJob("held")
	held.Spec.Hold = true
	holds := b.submit(held)
	child := b.submit(childOf("child", running.String()))
	eventually(t, "the held one has a record", func() bool { return b.record(holds) != nil })
	b.waits(child)
	eventually(t, "all that wait on a lane are there", func() bool { return b.onLanes() == 2 })

	later := func(d time.Duration) *janitor {
		b.opts.Now = func() time.Time { return time.Now().Add(d) }
		return b.open().newJanitor(b.ctx)
	}
	if did, err := later(88 * day).round(b.ctx); err != nil || did.TooOld != 0 {
		t.Fatalf("two days too early: %+v, %v", did, err)
	}
	jan := later(89*day + time.Hour)
	did, err := jan.round(b.ctx)
	if err != nil || did.TooOld != 3 || did.Requeued != 0 {
		t.Errorf("%+v, %v", did, err)
	}
	for _, ref := range []Ref{waiting, holds, child} {
		if r := b.wait(ref); r.State != job.Expired || r.Reason != reasonTooOld || !strings.Contains(r.Evidence, "89 days") || r.User != "ada" {
			t.Errorf("%s: %+v", ref, r)
		}
	}
	if rec := b.record(running); rec.State != job.Running {
		t.Errorf("what runs is %s", rec.State)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	if d, err := m.next().Claim(b.ctx, nil); !errors.Is(err, ErrForget) { // the message of the one that waited
		t.Errorf("%v, %v", d, err)
	}
	eventually(t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
	if did, err = jan.round(b.ctx); err != nil || did.TooOld != 0 || jan.low != child.Number+1 {
		t.Errorf("the next round: %+v, %v; low %d", did, err, jan.low)
	}
}

// A lane that nobody has used for a day, and that holds nothing, is taken off the list; one with a job is not.
func TestJanitorRetiresLanes(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	used, idle := newJob("used"), newJob("idle")
	idle.Requirements.GPUMemoryMB = 8192
	b.submit(used)
	gone := b.submit(idle)
	eventually(t, "both lanes are known", func() bool { return len(b.q.Lanes()) == 2 })
	eventually(t, "both have a job", func() bool { return b.onLanes() == 2 })
	m := b.machine("m1")
	for b.onLanes() == 2 {
		d := m.next()
		if d.Ref() != gone {
			if err := d.Return(b.ctx, 0, "not wanted"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		c, err := d.Claim(b.ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(b.ctx, succeeded); err != nil {
			t.Fatal(err)
		}
	}
	q := b.open()
	q.lanes.mu.Lock()
	for _, l := range q.lanes.lanes {
		l.heat.at = l.heat.at.Add(-laneIdle - time.Hour)
	}
	q.lanes.list = nil
	q.lanes.mu.Unlock()
	if did, err := q.newJanitor(b.ctx).round(b.ctx); err != nil || did.Retired != 1 {
		t.Errorf("%+v, %v", did, err)
	}
	eventually(t, "everybody has heard of it", func() bool {
		l := b.q.Lanes()
		return len(l) == 1 && l[0].Shape.Requirements.GPUMemoryMB < 8192
	})
}
