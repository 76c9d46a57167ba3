package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// death is one way in which a job comes to be dead. It brings one about in a process that crashes at a step, and leaves
// that process dead.
type death struct {
	reason string
	steps  []string
	die    func(b *bundle, step string) Ref
}

var deaths = map[string]death{
	"gpu-fault": {"system_attempts", []string{"requeue:cas", "requeue:run", "dead:letter", "requeue:result", "requeue:ack"}, dieOfAFault},
	"lost":      {"system_attempts", []string{"lost:cas", "dead:letter", "forget:result"}, dieWithAMachine},
	"no-job":    {"Garbage", []string{"end:cas", "dead:letter", "end:result", "clerk:ack"}, dieOfGarbage},
	"bad-lane":  {"Garbage", []string{"end:cas", "dead:letter", "end:result"}, dieOnALane},
	"janitor":   {"system_attempts", []string{"dead:letter", "janitor:result"}, dieUnheard},
}

// Whatever step of a job's death is the last of the process that sees to it, the next one makes it good: one letter that
// says why, one result, a message of each attempt, nothing left on lanes.
func TestCrashWhileDying(t *testing.T) {
	t.Parallel()
	for way, d := range deaths {
		for _, step := range d.steps {
			t.Run(way+"-"+strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
				t.Parallel()
				b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second, SystemAttempts: 1})
				ref := d.die(b, step)
				b.background(b.q.RunClerk)
				b.background(b.machine("heir").workOff)
				b.background(func(ctx context.Context) error { return b.q.RunJanitor(ctx, "heir", 500*time.Millisecond) })
				b.buried(ref, 1, d.reason)
			})
		}
	}
}

// buried waits until a round of a job has ended dead and checks what is left of it.
func (b *bundle) buried(ref Ref, round int, reason string) {
	b.t.Helper()
	eventually(b.t, "its last round has ended", func() bool {
		rs := b.results(ref)
		return len(rs) > 0 && rs[len(rs)-1].Round == round
	})
	eventually(b.t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
	all, rs := b.dead(), b.results(ref)
	if len(all) != 1 || all[0].Ref() != ref || all[0].Round != round || all[0].Reason != reason || all[0].Evidence == "" {
		b.t.Errorf("letters: %+v", all)
	}
	if len(rs) != round || rs[round-1].State != job.Dead {
		b.t.Errorf("%d results, the last %s, of %d rounds", len(rs), rs[len(rs)-1].State, round)
	}
	if rec := b.record(ref); len(rec.Attempts) != b.runs(ref) {
		b.t.Errorf("%d attempts, %d messages of attempts", len(rec.Attempts), b.runs(ref))
	}
}

func (b *bundle) crashed(crashed func() bool) {
	b.t.Helper()
	eventually(b.t, "the crash happened", crashed)
}

// dieOfAFault: the worker crashes while it ends the attempt.
func dieOfAFault(b *bundle, step string) Ref {
	stop := b.background(b.q.RunClerk)
	defer stop()
	ref, victim := b.submit(newJob("poison")), b.machine("victim")
	c := victim.claim()
	crashed := crashOnce(victim.q, step)
	err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeGPUFault, Evidence: "xid 79"}, Requeue{})
	if !errors.Is(err, errCrash) || !crashed() {
		b.t.Fatalf("the crash did not happen: %v", err)
	}
	victim.die()
	return ref
}

// dieWithAMachine: the machine is lost, and the one that finds that out crashes over it.
func dieWithAMachine(b *bundle, step string) Ref {
	stop := b.background(b.q.RunClerk)
	defer stop()
	ref, first := b.submit(newJob("unlucky")), b.machine("first")
	first.claim()
	first.die()
	finder := b.machine("finder")
	crashed := crashOnce(finder.q, step)
	work := b.background(finder.workOff)
	b.crashed(crashed)
	work()
	finder.die()
	return ref
}

// dieOfGarbage: the clerk that finds no job in the message crashes.
func dieOfGarbage(b *bundle, step string) Ref {
	ack, err := b.q.publish(b.ctx, newMsg(jobSubject("lab", "ada"), []byte("{}")))
	if err != nil {
		b.t.Fatal(err)
	}
	q := b.open()
	crashed := crashOnce(q, step)
	stop := b.background(q.RunClerk)
	b.crashed(crashed)
	stop()
	return JobRef(ack.Sequence)
}

// dieOnALane: the worker that finds garbage on the job's lane crashes.
func dieOnALane(b *bundle, step string) Ref {
	j, lane := b.lane(4096, 50)
	ref := b.submit(j) // no clerk has seen it
	bad := newMsg(laneSubject(lane), []byte{0})
	bad.Header.Set(headerMsgID, dispatchID(ref, 1))
	if _, err := b.q.publish(b.ctx, bad); err != nil {
		b.t.Fatal(err)
	}
	victim := b.machine("victim")
	crashed := crashOnce(victim.q, step)
	stop := b.background(victim.workOff)
	b.crashed(crashed)
	stop()
	victim.die()
	return ref
}

// dieUnheard: the record says dead and nothing else does, and the janitor that finds it crashes.
func dieUnheard(b *bundle, step string) Ref {
	stop := b.background(b.q.RunClerk)
	ref, victim := b.submit(newJob("unheard")), b.machine("victim")
	c := victim.claim()
	crashOnce(victim.q, "requeue:run")
	if err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeGPUFault}, Requeue{}); !errors.Is(err, errCrash) {
		b.t.Fatalf("the crash did not happen: %v", err)
	}
	victim.die()
	stop()
	s, err := b.q.js.Stream(b.ctx, StreamLanes)
	if err == nil {
		err = s.Purge(b.ctx)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	q := b.open()
	crashed := crashOnce(q, step)
	if _, err := q.newJanitor(b.ctx).round(b.ctx); !errors.Is(err, errCrash) || !crashed() {
		b.t.Fatalf("the crash did not happen: %v", err)
	}
	return ref
}

// A dead job is retried by a process that crashes at any step: nothing has happened and the letter is there, or the round
// takes place and the letter is gone, for good. Dying again it is one letter, of the second round.
func TestCrashWhileRetryingTheDead(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"certify:result", "retry:ask", "retry:cas", "retry:letter", "retry:dispatch"} {
		t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
			t.Parallel()
			b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: time.Second, SystemAttempts: 1})
			clerk := b.background(b.q.RunClerk)
			ref, m := b.submit(newJob("poison")), b.machine("m1")
			b.kill(m, ref)
			clerk()
			q := b.open()
			crashed := crashOnce(q, step)
			if err := q.Retry(b.ctx, ref, "ada", false); !errors.Is(err, errCrash) || !crashed() {
				t.Fatalf("the crash did not happen: %v", err)
			}
			b.background(b.q.RunClerk)
			if step == "certify:result" || step == "retry:ask" { // nothing has happened: it is asked again
				b.buried(ref, 1, "system_attempts")
				if err := b.q.Retry(b.ctx, ref, "ada", false); err != nil {
					t.Fatal(err)
				}
			}
			c := m.claim()
			eventually(t, "the letter is gone", func() bool { return len(b.dead()) == 0 })
			if err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeGPUFault}, Requeue{}); err != nil {
				t.Fatal(err)
			}
			b.buried(ref, 2, "system_attempts")
			if err := b.q.Retry(b.ctx, ref, "ada", false); err != nil {
				t.Fatal(err)
			}
			b.background(m.workOff)
			eventually(t, "the third round succeeds", func() bool {
				r, err := b.q.Result(b.ctx, "lab", ref)
				return err == nil && r.Round == 3 && r.State == job.Succeeded
			})
			if all := b.dead(); len(all) != 0 {
				t.Errorf("it has succeeded, and there is a letter: %+v", all)
			}
		})
	}
}

// The same for the dead tasks of a group, which its keeper begins again.
func TestCrashWhileRetryingDeadTasks(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"again:letter", "group:cursor"} {
		t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
			t.Parallel()
			b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: time.Second, SystemAttempts: 1})
			clerk := b.background(b.q.RunClerk)
			j := newJob("poison")
			j.Tasks = &job.Tasks{Indexes: "1-2", Count: 2}
			ref, m := b.submit(j), b.machine("m1")
			for range 2 {
				if err := m.claim().Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeGPUFault}, Requeue{}); err != nil {
					t.Fatal(err)
				}
			}
			if r := b.wait(ref); r.Tasks[job.Dead] != 2 || len(b.dead()) != 2 {
				t.Fatalf("%v, %d letters", r.Tasks, len(b.dead()))
			}
			clerk()
			if err := b.q.Retry(b.ctx, ref, "ada", true); err != nil {
				t.Fatal(err)
			}
			q := b.open()
			crashed := crashOnce(q, step)
			stop := b.background(q.RunClerk)
			b.crashed(crashed)
			stop()
			b.background(b.q.RunClerk)
			b.background(m.workOff)
			if r := b.wait(ref); r.State != job.Succeeded || r.Round != 2 {
				t.Errorf("the second round: %s %s", r.State, r.Reason)
			}
			if all := b.dead(); len(all) != 0 {
				t.Errorf("both have succeeded, and there are letters: %+v", all)
			}
		})
	}
}

// A letter is dropped or it is there: the job, its record and its result stay either way.
func TestCrashWhileDroppingALetter(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: time.Second, SystemAttempts: 1})
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	for _, step := range []string{"drop:letter", "drop:note"} {
		ref := b.submit(newJob("poison"))
		b.kill(m, ref)
		q := b.open()
		crashed := crashOnce(q, step)
		if err := q.DropDead(b.ctx, ref, "ada", "known"); !errors.Is(err, errCrash) || !crashed() {
			t.Fatalf("the crash did not happen: %v", err)
		}
		again := b.q.DropDead(b.ctx, ref, "ada", "known")
		if gone := step == "drop:note"; gone != errors.Is(again, ErrNoLetter) || !gone && again != nil {
			t.Errorf("%s: asked again: %v", step, again)
		}
		if len(b.dead()) != 0 || b.record(ref).State != job.Dead || len(b.results(ref)) != 1 {
			t.Errorf("%s: %d letters, %s, %d results", step, len(b.dead()), b.record(ref).State, len(b.results(ref)))
		}
	}
}
