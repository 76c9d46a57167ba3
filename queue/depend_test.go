package queue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// childOf is a job that waits for others: conditions as a spec has them.
func childOf(name string, conditions ...string) job.Job {
	j := newJob(name)
	for _, c := range conditions {
		var d job.Dependency
		if err := d.UnmarshalText([]byte(c)); err != nil {
			panic(err)
		}
		j.Spec.DependsOn = append(j.Spec.DependsOn, d)
	}
	return j
}

// finishNext runs the next job on any lane to that end.
func (m *machine) finishNext(want Ref, outcome job.Outcome) {
	m.t.Helper()
	c := m.claim()
	if c.Ref() != want {
		m.t.Fatalf("got %s, want %s", c.Ref(), want)
	}
	if err := c.Finish(m.ctx, job.Result{Outcome: outcome, Exit: &job.Exit{}}); err != nil {
		m.t.Fatal(err)
	}
}

func (b *bundle) waits(ref Ref) {
	b.t.Helper()
	eventually(b.t, ref.String()+" waits for its parents", func() bool { rec := b.record(ref); return rec != nil && rec.Waiting })
}

// once checks that a job ran once, and ended once.
func (b *bundle) once(ref Ref) {
	b.t.Helper()
	if r := b.wait(ref); r.State != job.Succeeded || r.Attempt != 1 {
		b.t.Errorf("%s ended %s after attempt %d (%s %s)", ref, r.State, r.Attempt, r.Reason, r.Evidence)
	}
	if n, runs := len(b.results(ref)), b.runs(ref); n != 1 || runs != 1 {
		b.t.Errorf("%s has %d results and %d runs", ref, n, runs)
	}
}

// A diamond and its ends: the lower corner runs after both sides, a failed parent ends what needs its success and lets go
// what only needs its end, down the line.
func TestDependencies(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	top := b.submit(newJob("top"))
	left, right := b.submit(childOf("left", "top")), b.submit(childOf("right", "after-ok:"+top.String()))
	bottom := b.submit(childOf("bottom", "left", "right"))
	b.waits(bottom)
	if v, err := b.q.Show(b.ctx, bottom); err != nil || v.State != job.Queued || v.Reason != "Dependency" || !strings.Contains(v.ReasonText, "has succeeded") {
		t.Errorf("show: %+v, %v", v, err)
	}
	m.finishNext(top, job.OutcomeSucceeded)
	c1, c2 := m.claim(), m.claim()
	for _, c := range []*Claim{c1, c2} {
		if rec := b.record(bottom); !rec.Waiting {
			t.Error("the bottom was let go before both sides had ended")
		}
		if err := c.Finish(b.ctx, succeeded); err != nil {
			t.Fatal(err)
		}
	}
	m.finishNext(bottom, job.OutcomeSucceeded)
	for _, ref := range []Ref{top, left, right, bottom} {
		b.once(ref)
	}

	bad := b.submit(newJob("bad"))
	needs, grandchild := b.submit(childOf("needs", bad.String())), b.submit(childOf("grandchild", "needs"))
	cleanup := b.submit(childOf("cleanup", "after:"+bad.String()))
	either := b.submit(childOf("either", bad.String()+"|"+top.String()))
	patient := childOf("patient", bad.String())
	patient.Spec.IfParentFails = job.ParentFailsWait
	waits := b.submit(patient)
	b.waits(waits)
	first := m.claim() // either may go at once: its second choice has succeeded
	second := m.claim()
	if refs := map[Ref]bool{first.Ref(): true, second.Ref(): true}; !refs[bad] || !refs[either] {
		t.Fatalf("these run: %v", refs)
	}
	for _, c := range []*Claim{first, second} {
		outcome := job.OutcomeSucceeded
		if c.Ref() == bad {
			outcome = job.OutcomeFailed
		}
		if err := c.Finish(b.ctx, job.Result{Outcome: outcome}); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []Ref{needs, grandchild} {
		if r := b.wait(ref); r.State != job.Cancelled || r.Reason != "Dependency" || !strings.Contains(r.Evidence, "ended ") || r.Attempt != 0 {
			t.Errorf("%s: %+v", ref, r)
		}
	}
	m.finishNext(cleanup, job.OutcomeSucceeded)
	b.once(cleanup)
	if rec := b.record(waits); !rec.Waiting || rec.State != job.Queued {
		t.Errorf("the patient one: %+v", rec)
	}
	if err := b.q.Retry(b.ctx, bad, "ada", false); err != nil {
		t.Fatal(err)
	}
	m.finishNext(bad, job.OutcomeSucceeded)
	m.finishNext(waits, job.OutcomeSucceeded)
	b.once(waits)
}

func TestChainOfFifty(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	refs := []Ref{b.submit(newJob("link"))}
	for range 49 {
		refs = append(refs, b.submit(childOf("link", refs[len(refs)-1].String())))
	}
	b.background(b.machine("m1").workOff)
	b.background(b.machine("m2").workOff)
	var before time.Time
	for _, ref := range refs {
		r := b.wait(ref)
		if r.State != job.Succeeded || r.StartedAt.Before(before) {
			t.Fatalf("%s: %s, started %v before its parent ended", ref, r.State, before.Sub(*r.StartedAt))
		}
		before = *r.EndedAt
	}
}

// Parents that have ended before the child comes; groups, tasks and ranges of tasks as parents; groups as children; a
// task whose turn never came.
func TestGroupsAsParentsAndChildren(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	array := newJob("group")
	array.Tasks = &job.Tasks{Indexes: "1-3", Count: 3, MaxConcurrent: 1}
	group := b.submit(array)
	all := b.submit(childOf("all", "after:group"))
	one := b.submit(childOf("one", TaskRef(group.Number, 1).String()))
	two := b.submit(childOf("two", group.String()+".1-2"))
	never := b.submit(childOf("never", TaskRef(group.Number, 3).String()))
	next := childOf("next", "one")
	next.Tasks = &job.Tasks{Indexes: "0-1", Count: 2}
	children := b.submit(next)
	for _, ref := range []Ref{all, one, two, never, children} {
		b.waits(ref)
	}
	m := b.machine("m1")
	m.finishNext(TaskRef(group.Number, 1), job.OutcomeSucceeded)
	seen := map[Ref]bool{}
	for range 2 { // the second task and the child of the first
		c := m.claim()
		seen[c.Ref()] = true
		if c.Ref() == one {
			if err := c.Finish(b.ctx, succeeded); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !seen[one] || !seen[TaskRef(group.Number, 2)] {
		t.Fatalf("these were let go: %v", seen)
	}
	if rec := b.record(two); !rec.Waiting {
		t.Error("the child of two tasks was let go after the first")
	}
	for range 2 { // the group that waited for one
		c := m.claim()
		if c.Ref().Number != children.Number {
			t.Fatalf("got %s", c.Ref())
		}
		if err := c.Finish(b.ctx, succeeded); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.wait(children); r.State != job.Succeeded {
		t.Errorf("the group that waited: %s", r.State)
	}
	if _, err := b.q.Cancel(b.ctx, group, "ada", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the task that runs is told", func() bool { return b.record(TaskRef(group.Number, 2)).Cancel != nil })
	c, err := m.q.Resume(b.ctx, m.s, ClaimState{
		Number: group.Number, Index: TaskRef(group.Number, 2).IndexPtr(), Epoch: 1, Attempt: 1, Session: m.s.ID(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(b.ctx, job.Result{Outcome: job.OutcomeCancelled}); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []Ref{two, never} {
		if r := b.wait(ref); r.State != job.Cancelled || r.Reason != "Dependency" {
			t.Errorf("%s: %s %s", ref, r.State, r.Reason)
		}
	}
	b.background(m.workOff)
	b.once(all)
	b.once(b.submit(childOf("late", "after:"+group.String(), "one"))) // both have ended long ago
	if r := b.wait(b.submit(childOf("too late", group.String()))); r.State != job.Cancelled {
		t.Errorf("the child of a group that was cancelled before: %s", r.State)
	}
}

// Whatever step of coming, of the parent's end or of the release is the last of its process, the child runs once.
func TestCrashWhileDepending(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"enter:cas", "await:key", "await:mark", "release:cas", "release:dispatch", "release:keys", "release:ack", "finish:cas", "finish:run", "end:wake", "finish:result", "finish:ack"} {
		t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
			t.Parallel()
			b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
			crashed := crashOnce(b.q, step) // of the clerk
			b.background(b.q.RunClerk)
			parent := b.submit(newJob("parent"))
			child := b.submit(childOf("child", "parent"))
			b.waits(child)
			eventually(t, "the parent knows", func() bool { rec := b.record(parent); return rec != nil && rec.Awaited })
			victim := b.machine("m1")
			c := victim.claim()
			crashedEnding := crashOnce(victim.q, step) // of the worker
			if err := c.Finish(b.ctx, succeeded); err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if crashedEnding() {
				victim.die()
			}
			b.background(b.machine("m2").workOff)
			if r := b.wait(child); r.State != job.Succeeded || r.Attempt != 1 {
				t.Errorf("the child ended %s after attempt %d", r.State, r.Attempt)
			}
			if !crashed() && !crashedEnding() {
				t.Error("the crash did not happen")
			}
			if n := b.runs(child); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// What the broker lost of a release the janitor puts back.
func TestJanitorLetsGo(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	parent := b.submit(newJob("parent"))
	child := b.submit(childOf("child", "parent"))
	b.waits(child)
	eventually(t, "the parent knows", func() bool { rec := b.record(parent); return rec != nil && rec.Awaited })
	if _, err := b.q.records.change(b.ctx, parent, func(rec *job.Record) (*job.Record, error) {
		b.q.closeRecord(&job.Job{}, parent, rec, job.Result{State: job.Succeeded})
		rec.Awaited = false // nobody will be told
		return rec, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.q.newJanitor(b.ctx).round(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.background(b.machine("m1").workOff)
	b.once(child)
}

// Hold, priority and limits of waiting have their say about a job that waits for others too.
func TestSteeringAWaitingChild(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	parent := b.submit(newJob("parent"))
	j := childOf("child", "parent")
	j.Spec.WaitTimeout = job.Duration(time.Millisecond) // counted from the end of its parents
	j.Spec.Hold = true
	child := b.submit(j)
	b.waits(child)
	if err := b.setPriority(child, 90); err != nil {
		t.Fatal(err)
	}
	if err := b.q.Release(b.ctx, child, "ada"); err != nil {
		t.Fatal(err)
	}
	if rec := b.record(child); !rec.Waiting || rec.State != job.Queued || rec.Reason != "Dependency" || rec.Epoch != 1 {
		t.Errorf("released, it does not wait for its parent: %+v", rec)
	}
	if did, err := b.q.newJanitor(b.ctx).round(b.ctx); err != nil || did.Requeued != 0 || b.onLanes() != 1 {
		t.Errorf("the janitor: %+v, %v", did, err)
	}
	if rec := b.record(child); rec.State != job.Queued {
		t.Errorf("it ended %s before its parents", rec.State)
	}
	m.finishNext(parent, job.OutcomeSucceeded)
	if r := b.wait(child); r.State != job.Expired || r.Reason != "wait_timeout" {
		t.Errorf("%s %s", r.State, r.Reason)
	}
}

func TestUnknownParentsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	group := newJob("group")
	group.Tasks = &job.Tasks{Indexes: "1-3", Count: 3}
	n := b.submit(group).String()
	for _, word := range []string{"99", "no-such-name", n + ".9", "1-99", n + ".1-9", "5-2"} {
		if _, err := b.q.Submit(b.ctx, childOf("child", word)); !errors.Is(err, ErrParent) {
			t.Errorf("%s: %v", word, err)
		}
	}
	if state, err := b.q.streamState(b.ctx, StreamJobs, ""); err != nil || state.Msgs != 1 {
		t.Errorf("%d messages: something was accepted (%v)", state.Msgs, err)
	}
	// A message that was never checked: two that wait for each other, and one for itself.
	b.background(b.q.RunClerk)
	for _, ref := range []Ref{b.store(childOf("a", "3")), b.store(childOf("b", "2", "3"))} {
		if r := b.wait(ref); r.State != job.Cancelled || r.Reason != "Dependency" {
			t.Errorf("%s: %s %s", ref, r.State, r.Reason)
		}
	}
}
