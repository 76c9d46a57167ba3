package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// nearJob is a job that would rather run where another one did.
func nearJob(name, as string) job.Job {
	return rather(newJob(name), as)
}

func rather(j job.Job, as string) job.Job {
	j.Spec.SameGPUAs, j.Spec.Resources.GPUs = as, job.CountOf(1)
	return j
}

// near is a bundle in which job 1 has run on GPU-0 of m1, which is there.
func near(t *testing.T, nearFor time.Duration) (*bundle, *machine) {
	b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: 2 * time.Second, NearFor: nearFor})
	b.background(b.q.RunClerk)
	b.announce("m1", "ready")
	m := b.machine("m1")
	m.finishNext(b.submit(newJob("first")), job.OutcomeSucceeded)
	return b, m
}

func (b *bundle) announce(name, state string) {
	b.t.Helper()
	m := Machine{Name: name, GPUs: []GPU{{UUID: "GPU-0", State: state}}}
	if err := b.q.Announce(b.ctx, m); err != nil {
		b.t.Fatal(err)
	}
}

// finish ends a claim well.
func (b *bundle) finish(c *Claim) {
	b.t.Helper()
	if err := c.Finish(b.ctx, succeeded); err != nil {
		b.t.Fatal(err)
	}
}

// takes claims the next job and says on which lane it was: whether it was bound to GPU-0 of m1.
func (m *machine) takes(want Ref) (c *Claim, bound bool) {
	m.t.Helper()
	d := m.next()
	if d.Ref() != want {
		m.t.Fatalf("got %s, want %s", d.Ref(), want)
	}
	i := slices.IndexFunc(m.q.Lanes(), func(l LaneInfo) bool { return l.Lane == d.Lane })
	needs := m.q.Lanes()[i].Shape.Requirements
	c, err := d.Claim(m.ctx, []string{"GPU-0"})
	if err != nil {
		m.t.Fatal(err)
	}
	return c, needs.Machine == "m1" && slices.Equal(needs.GPUIDs, []string{"GPU-0"})
}

// While it waits for the place its lane is that place's; what it needs, and may need again, stays what it asked for.
func TestSameGPUWaitsForItsPlace(t *testing.T) {
	t.Parallel()
	b, m := near(t, time.Hour)
	ref := b.submit(nearJob("second", "first"))
	c, bound := m.takes(ref)
	rec := c.Record()
	if !bound || rec.Requirements.Machine != "" || rec.Requirements.GPUIDs != nil || rec.Epoch != 1 {
		t.Errorf("bound %v, record %+v", bound, rec)
	}
	if n := rec.Near; n == nil || n.Job != "1" || n.Machine != "m1" || !slices.Equal(n.Devices, []string{"GPU-0"}) || !n.Waits() {
		t.Errorf("near: %+v", n)
	}
	if err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeFailed}, Requeue{}); err != nil {
		t.Fatal(err)
	}
	c, bound = m.takes(ref)
	if rec := c.Record(); bound || rec.Near.Waits() || rec.Near.Devices[0] != "GPU-0" {
		t.Errorf("after a run it is still bound to the place: %v, %+v", bound, rec.Near)
	}
	b.finish(c)

	waits := rather(childOf("third", "second"), "second")
	waits.Spec.Hold = true
	third := b.submit(waits)
	eventually(t, "it is let go by its parent, and held", func() bool {
		rec := b.record(third)
		return rec != nil && rec.State == job.Held && !rec.Waiting
	})
	if err := b.q.Release(b.ctx, third, "ada"); err != nil {
		t.Fatal(err)
	}
	c, bound = m.takes(third)
	if !bound || c.Record().Near.Job != ref.String() {
		t.Errorf("released, it is not put where job %s ran: %+v", ref, c.Record().Near)
	}
	if err := c.Return(b.ctx, 0, "drained"); err != nil {
		t.Fatal(err)
	}
	c, bound = m.takes(third)
	if bound {
		t.Error("given back by its place it still waits for it")
	}
	b.finish(c)
	c, bound = m.takes(b.submit(rather(childOf("fourth", "third"), third.String())))
	if !bound {
		t.Error("let go by its parent, it is not put where that ran")
	}
	b.finish(c)
	if err := b.q.Retry(b.ctx, c.Ref(), "ada", false); err != nil {
		t.Fatal(err)
	}
	if c, bound = m.takes(c.Ref()); bound {
		t.Error("in its second round it waits for its place again")
	}
	b.finish(c)
}

// When it has waited long enough it goes anywhere, and runs once: by the wake-up, or by the janitor where that was lost.
func TestSameGPUGoesAnywhereInTime(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		b, m := near(t, 700*time.Millisecond)
		ref := b.submit(nearJob("second", "first"))
		eventually(t, "it waits for its place", func() bool { rec := b.record(ref); return rec != nil && rec.Near.Waits() })
		if v, err := b.q.Show(b.ctx, ref); err != nil || v.Asks().Machine != "m1" || v.Needs.Machine != "" {
			t.Fatalf("show: %+v, %v", v, err)
		}
		if lost {
			eventually(t, "the wake-up is gone", func() bool {
				for _, name := range []string{StreamLanes, StreamDuties} {
					if s, err := b.q.js.Stream(b.ctx, name); err != nil || s.Purge(b.ctx) != nil {
						return false
					}
				}
				return b.record(ref).Near.Over(time.Now())
			})
			if _, err := b.q.newJanitor(b.ctx).round(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "it may go anywhere", func() bool { rec := b.record(ref); return rec.Epoch == 2 && !rec.Near.Waits() })
		c, bound := m.takes(ref)
		if bound {
			t.Error("it was taken off the lane of its place")
		}
		b.finish(c)
		b.once(ref)
		eventually(t, "the lanes are empty", func() bool {
			_, _ = m.tryNext(50 * time.Millisecond) // forgets what is left on the first lane
			return b.onLanes() == 0
		})
	}
}

// No place is waited for that cannot come: a machine that is gone or drains, a GPU out of service, a job that never ran.
func TestSameGPUWaitsForNothing(t *testing.T) {
	t.Parallel()
	b, m := near(t, time.Hour)
	b.announce("m1", "quarantined")
	c, bound := m.takes(b.submit(nearJob("quarantined", "first")))
	if bound || c.Record().Near != nil {
		t.Error("it waits for a GPU out of service")
	}
	b.finish(c)
	if err := b.q.Announce(b.ctx, Machine{Name: "m1", Draining: true, GPUs: []GPU{{UUID: "GPU-0", State: "draining"}}}); err != nil {
		t.Fatal(err)
	}
	c, bound = m.takes(b.submit(nearJob("drains", "first")))
	if bound {
		t.Error("it waits for a machine that drains")
	}
	b.finish(c)
	if err := b.q.Depart(b.ctx, "m1"); err != nil {
		t.Fatal(err)
	}
	c, bound = m.takes(b.submit(nearJob("gone", "first")))
	if bound {
		t.Error("it waits for a machine that is gone")
	}
	b.finish(c)
	b.announce("m1", "ready")
	held := newJob("never ran")
	held.Spec.Hold = true
	b.submit(held)
	c, bound = m.takes(b.submit(nearJob("after none", "never ran")))
	if bound {
		t.Error("it waits for the place of a job that never ran")
	}
	b.finish(c)
}

func TestSameGPUNamesOneJob(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	group := newJob("group")
	group.Tasks = &job.Tasks{Indexes: "1-3", Count: 3}
	n := b.submit(group).String()
	for word, why := range map[string]string{
		"99": "no such job", "nobody": "no such job", n: "name one task", n + ".9": "no such job", n + ".1-2": "want one job",
	} {
		_, err := b.q.Submit(b.ctx, nearJob("child", word))
		if !errors.Is(err, ErrParent) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: want %q, got %v", word, why, err)
		}
	}
	if state, err := b.q.streamState(b.ctx, StreamJobs, ""); err != nil || state.Msgs != 1 {
		t.Errorf("%d messages: something was accepted (%v)", state.Msgs, err)
	}
	if j, err := b.q.Job(b.ctx, b.submit(nearJob("child", n+".2")).Number); err != nil || j.Spec.SameGPUAs != n+".2" {
		t.Errorf("a task: %v, %v", j, err)
	}
}

// A preference does not cost a job its life where there are too many lanes already.
func TestSameGPUWithoutLanesToSpare(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 60 * time.Second, NearFor: time.Hour, MaxLanes: 1})
	b.background(b.q.RunClerk)
	b.announce("m1", "ready")
	m := b.machine("m1")
	m.finishNext(b.submit(newJob("first")), job.OutcomeSucceeded)
	ref := b.submit(nearJob("second", "first"))
	c, bound := m.takes(ref)
	if bound {
		t.Error("there is a second lane")
	}
	b.finish(c)
	b.once(ref)
}

// A worker that gives a job back from its place and crashes over it leaves it to all others.
func TestCrashWhileReturningFromItsPlace(t *testing.T) {
	t.Parallel()
	b, victim := near(t, time.Hour)
	c, _ := victim.takes(b.submit(nearJob("second", "first")))
	crashed := crashOnce(victim.q, "return:dispatch")
	if err := c.Return(b.ctx, 0, "drained"); !errors.Is(err, errCrash) || !crashed() {
		t.Fatalf("the crash did not happen: %v", err)
	}
	victim.die()
	b.background(b.machine("m2").workOff)
	if r := b.wait(c.Ref()); r.State != job.Succeeded || r.Attempt != 2 || b.runs(c.Ref()) != 2 || len(b.results(c.Ref())) != 1 {
		t.Errorf("%s after attempt %d", r.State, r.Attempt)
	}
}

// Whatever step of being placed, or let go from the place, is the last of its process, the job runs once.
func TestCrashWhilePlaced(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"enter:cas", "clerk:dispatch", "clerk:ack", "place:dispatch"} {
		t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
			t.Parallel()
			b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: time.Second, NearFor: 500 * time.Millisecond})
			b.announce("m1", "ready")
			m := b.machine("m1")
			stop := b.background(b.q.RunClerk)
			m.finishNext(b.submit(newJob("first")), job.OutcomeSucceeded)
			stop()
			q := b.open()
			crashed := crashOnce(q, step)
			stop = b.background(q.RunClerk)
			ref := b.submit(nearJob("second", "first"))
			eventually(t, "the crash happened", crashed)
			stop()
			b.background(b.q.RunClerk)
			eventually(t, "it may go anywhere", func() bool { rec := b.record(ref); return rec != nil && rec.Near != nil && !rec.Near.Waits() })
			b.background(m.workOff)
			b.once(ref)
		})
	}
}
