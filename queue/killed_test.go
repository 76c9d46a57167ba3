package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/natsembed/natstest"
)

// A broker that is killed may lose the lane messages that it had not written yet, since a lane need not be on the disk
// before a job goes on. The jobs are, and so every job still runs once.
func TestKilledBrokerLosesNoJob(t *testing.T) {
	t.Parallel()
	const jobs, submitters = 240, 4
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	broker := natstest.NewCluster(t, 1)
	b := &bundle{t: t, ctx: ctx, opts: quick(), url: func() string { return broker.URL(0) }}
	b.q = b.open()
	ran := &runCount{runs: map[Ref]int{}}
	for range 2 {
		q := b.open()
		b.background(q.RunClerk)
		b.background(func(ctx context.Context) error { return q.RunJanitor(ctx, "test", 500*time.Millisecond) })
		m := b.machineOn(q, "m")
		b.background(func(ctx context.Context) error { return m.work(ctx, ran) })
	}
	refs, stored := make(chan Ref, jobs), make(chan struct{}, jobs)
	var all sync.WaitGroup
	for range submitters {
		q := b.open()
		all.Go(func() {
			for range jobs / submitters {
				r, err := q.Submit(ctx, newJob("x"))
				if err != nil {
					t.Errorf("a submit gave up: %v", err)
					return
				}
				refs <- JobRef(r.Number)
				stored <- struct{}{}
			}
		})
	}
	for range jobs / 3 {
		select {
		case <-stored:
		case <-ctx.Done():
			t.Fatal("no third of the jobs was submitted")
		}
	}
	broker.Kill(0)
	broker.Start(0)
	all.Wait()
	close(refs)
	for ref := range refs {
		b.outcome(ref)
		if n := ran.of(ref); n != 1 {
			t.Errorf("%s ran %d times", ref, n)
		}
	}
}
