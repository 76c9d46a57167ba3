package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// A result that a crash left in the record is published, also when no message is left to bring anybody to it.
func TestJanitorPublishesLeftResults(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"finish:run", "finish:result"} {
		t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
			t.Parallel()
			b := setup(t, quick())
			b.background(b.q.RunClerk)
			ref := b.submit(newJob("unpublished"))
			m := b.machine("m1")
			c := m.claim()
			crashOnce(m.q, step)
			if err := c.Finish(b.ctx, succeeded); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if err := c.ticket.done(b.ctx); err != nil { // the work queue loses the message
				t.Fatal(err)
			}
			jan := b.q.newJanitor(b.ctx)
			did, err := jan.round(b.ctx)
			if err != nil || did.Published != 1 {
				t.Fatalf("%+v, %v", did, err)
			}
			if r := b.wait(ref); r.State != job.Succeeded || b.runs(ref) != 1 {
				t.Errorf("result: %+v, %d runs", r, b.runs(ref))
			}
			if did, err = jan.round(b.ctx); err != nil || did != (Tidied{}) || jan.low != ref.Number+1 {
				t.Errorf("a second round: %+v, %v, low %d", did, err, jan.low)
			}
		})
	}
}

// A job whose holder died and whose message was lost has nobody to find it but the janitor.
func TestJanitorFindsTheLost(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("lost"))
	m := b.machine("m1")
	c := m.claim()
	if err := c.ticket.done(b.ctx); err != nil { // the work queue loses the message
		t.Fatal(err)
	}
	jan := b.q.newJanitor(b.ctx)
	if did, err := jan.round(b.ctx); err != nil || did.Lost+did.Requeued > 0 {
		t.Fatalf("while its holder lives: %+v, %v", did, err)
	}
	m.die()
	eventually(t, "it is put back", func() bool {
		did, err := jan.round(b.ctx)
		return err == nil && did.Lost == 1 && did.Requeued == 1
	})
	heir := b.machine("m2").claim()
	if heir.Ref() != ref || heir.Attempt() != 2 || heir.Epoch() != 2 {
		t.Errorf("%s attempt %d epoch %d", heir.Ref(), heir.Attempt(), heir.Epoch())
	}
	if err := heir.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
}

// Of several processes one has the duty, and the next gets it when that one ends.
func TestElection(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	took := make(chan string, 8)
	candidate := func(name string) (stop func()) {
		q := b.open()
		return b.background(func(ctx context.Context) error {
			return q.elect(ctx, "test", name, func(ctx context.Context) {
				took <- name
				<-ctx.Done()
			})
		})
	}
	stops := map[string]func(){"a": candidate("a"), "b": candidate("b")}
	first := <-took
	select {
	case second := <-took:
		t.Fatalf("%s and %s both have the duty", first, second)
	case <-time.After(2 * reignRenew):
	}
	stops[first]()
	select {
	case second := <-took:
		if second == first {
			t.Errorf("%s took it again", first)
		}
	case <-time.After(patience):
		t.Fatal("nobody took the duty over")
	}
}
