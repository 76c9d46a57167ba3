package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// Lane messages, lanes and consumers are deleted at random while jobs are submitted and run; the janitor puts back what
// is missing, and every job runs once.
func TestJanitorRepairsTheLanes(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	b.background(func(ctx context.Context) error { return b.q.RunJanitor(ctx, "test", time.Second) })
	lanes, err := b.q.js.Stream(b.ctx, StreamLanes)
	if err != nil {
		t.Fatal(err)
	}
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "1-40", Count: 40}
	group := b.submit(array)
	var refs []Ref
	deleted := 0
	for i := range 120 {
		j, lane := b.lane(4096+1024*int64(i%4), 50)
		refs = append(refs, b.submit(j))
		if i%10 != 9 {
			continue
		}
		for range 4 { // before any worker comes, so that what is deleted was waiting
			info, err := lanes.Info(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			first, last := info.State.FirstSeq, info.State.LastSeq
			if last > first && lanes.DeleteMsg(b.ctx, first+rand.Uint64N(last-first)) == nil {
				deleted++
			}
		}
		switch i % 30 {
		case 9:
			_ = b.q.js.DeleteConsumer(b.ctx, StreamLanes, laneConsumer(lane)) // it may have gone the last time
		case 19:
			_ = b.q.deleteKey(b.ctx, BucketShapes, laneKey(lane), b.rev(BucketShapes, laneKey(lane)))
		}
	}
	if deleted == 0 {
		t.Fatal("nothing was deleted: this shows nothing")
	}
	q := b.open()
	for range 4 {
		b.background(b.machineOn(q, "m").workOff)
	}
	for _, ref := range refs {
		if r := b.wait(ref); r.State != job.Succeeded || r.Attempt != 1 {
			t.Errorf("%s ended %s after %d attempts", ref, r.State, r.Attempt)
		}
	}
	if r := b.wait(group); r.State != job.Succeeded || r.Reason != "40 succeeded" {
		t.Errorf("the group: %s, %q", r.State, r.Reason)
	}
	if state, err := b.q.streamState(b.ctx, StreamResults, ""); err != nil || state.Msgs != 120+41 {
		t.Errorf("%d results, want %d (%v)", state.Msgs, 120+41, err)
	}
}

func (b *bundle) rev(bucket, key string) uint64 {
	b.t.Helper()
	s, err := b.q.getLast(b.ctx, "KV_"+bucket, "$KV."+bucket+"."+key, true)
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Seq
}

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
