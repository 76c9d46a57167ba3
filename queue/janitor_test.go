package queue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
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

// A round costs the broker a few requests for hundreds of jobs that are where they should be: on their lanes, or waiting
// for others. What has lost its place among them is found all the same.
func TestJanitorPassesByWhatIsInPlace(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	const many = 300
	parent := b.submit(newJob("parent"))
	var children []Ref
	for range many {
		children = append(children, b.submit(childOf("child", parent.String())))
		b.submit(newJob("lined up"))
	}
	for _, ref := range children {
		b.waits(ref)
	}
	eventually(t, "their parent knows of them", func() bool { rec := b.record(parent); return rec != nil && rec.Awaited })
	eventually(t, "the others are on their lane", func() bool { return b.onLanes() == many+1 })

	q := b.open()
	jan := q.newJanitor(b.ctx)
	round := func() (did Tidied, sent uint64) {
		before := q.nc.Stats().OutMsgs
		did, err := jan.round(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return did, q.nc.Stats().OutMsgs - before
	}
	did, first := round()
	if did.Jobs != 2*many+1 || did.Requeued > 0 {
		t.Errorf("the first round: %+v", did)
	}
	did, second := round()
	if did.Requeued > 0 || second > 30 {
		t.Errorf("the second round sent %d messages about %d jobs: %+v", second, 2*many+1, did)
	}
	t.Logf("messages of the first round: %d, of the second: %d", first, second)

	// The lane loses one message, and nobody is told that the parent has ended.
	batch, err := q.batch(b.ctx, StreamLanes, map[string]any{"seq": 1, "batch": many, "next_by_subj": prefixLanes + ">"})
	if err != nil {
		t.Fatal(err)
	}
	lost := batch[many/2]
	lanes, err := q.js.Stream(b.ctx, StreamLanes)
	if err != nil {
		t.Fatal(err)
	}
	if err := lanes.DeleteMsg(b.ctx, lost.Seq); err != nil {
		t.Fatal(err)
	}
	if _, err := q.records.change(b.ctx, parent, func(rec *job.Record) (*job.Record, error) {
		q.closeRecord(&job.Job{}, parent, rec, job.Result{State: job.Succeeded})
		rec.Awaited = false
		return rec, nil
	}); err != nil {
		t.Fatal(err)
	}
	if did, _ := round(); did.Requeued != 1 {
		t.Errorf("the third round: %+v", did)
	}
	if n := b.onLanes(); n != 2*many+1 {
		t.Errorf("%d messages on lanes, want %d", n, 2*many+1)
	}
	ref, _, _ := parseDispatchID(lost.Header.Get(headerMsgID))
	if rec := b.record(ref); rec == nil || rec.Epoch != 2 {
		t.Errorf("record of %s, whose message was lost: %+v", ref, rec)
	}
}

// The duty of one that was killed, and says nothing any more, goes to another when its key has run out.
func TestDutyOfTheDeadGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	type taken struct {
		by   string
		busy int32
	}
	took := make(chan taken, 8)
	var busy atomic.Int32
	queues := map[string]*Queue{"a": b.open(), "b": b.open(), "c": b.open()}
	for name, q := range queues {
		b.background(func(ctx context.Context) error {
			return q.elect(ctx, "test", name, func(ctx context.Context) {
				took <- taken{name, busy.Add(1)}
				<-ctx.Done()
				busy.Add(-1)
			})
		})
	}
	first := <-took
	killed := time.Now()
	queues[first.by].nc.Close()
	select {
	case next := <-took:
		if next.by == first.by {
			t.Errorf("%s took it again without a connection", first.by)
		}
		if next.busy > 2 {
			t.Errorf("%d of them have the duty", next.busy)
		}
		t.Logf("taken over after %v, the key lives %v", time.Since(killed).Round(100*time.Millisecond), reignTTL)
	case <-time.After(patience):
		t.Fatal("nobody took the duty over")
	}
}
