package queue

import (
	"errors"
	"testing"

	"github.com/berthq/berth/job"
)

// kill makes a job dead: the system fails under it as often as it may.
func (b *bundle) kill(m *machine, ref Ref) {
	b.t.Helper()
	for range b.q.opts.SystemAttempts {
		c := m.claim()
		err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeGPUFault, Reason: "xid 79"}, Requeue{})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if r := b.wait(ref); r.State != job.Dead {
		b.t.Fatalf("it is %s", r.State)
	}
}

func (b *bundle) dead() []DeadLetter {
	b.t.Helper()
	all, err := b.q.Dead(b.ctx, "lab")
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	ref := b.submit(newJob("poison"))
	b.kill(m, ref)
	all := b.dead()
	if len(all) != 1 || all[0].Ref() != ref || all[0].Reason != "system_attempts" || all[0].Attempts != 3 || all[0].Machine != "m1" {
		t.Fatalf("dead letters: %+v", all)
	}
	if other, err := b.q.Dead(b.ctx, "other"); err != nil || len(other) != 0 {
		t.Errorf("another project sees %v, %v", other, err)
	}
	// A retry deals with it; dying again makes it one again.
	if err := b.q.Retry(b.ctx, ref, "ada", false); err != nil {
		t.Fatal(err)
	}
	if len(b.dead()) != 0 {
		t.Error("it runs again and is a dead letter")
	}
	b.kill(m, ref)
	if all = b.dead(); len(all) != 1 || all[0].Round != 2 {
		t.Fatalf("dead again: %+v", all)
	}
	// Dropped, it stays away, whoever publishes its end once more.
	if err := b.q.DropDead(b.ctx, ref, "ada", "known"); err != nil {
		t.Fatal(err)
	}
	if err := b.q.publishEnd(b.ctx, ref, b.record(ref), "test"); err != nil {
		t.Fatal(err)
	}
	if len(b.dead()) != 0 {
		t.Error("a dropped letter came back")
	}
	if err := b.q.DropDead(b.ctx, ref, "ada", ""); !errors.Is(err, ErrNoLetter) {
		t.Errorf("dropped twice: %v", err)
	}
	if r := b.results(ref); len(r) != 2 {
		t.Errorf("%d results, dropping a letter takes none away", len(r))
	}
}
