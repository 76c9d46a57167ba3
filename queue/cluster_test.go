package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
)

// clusterPatience is longer than patience: brokers in three processes elect leaders on two cores.
const clusterPatience = 2 * time.Minute

// clustered is a queue with three copies of everything on three brokers in processes of their own. Each connection
// begins at the next broker and goes on with another when that one is gone.
func clustered(t *testing.T, opts Options) (*bundle, *natstest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*clusterPatience)
	t.Cleanup(cancel)
	c := natstest.NewCluster(t, 3)
	opts.Replicas = 3
	var mu sync.Mutex
	next := 0
	b := &bundle{t: t, ctx: ctx, opts: opts, url: func() string {
		mu.Lock()
		defer mu.Unlock()
		next++
		return c.URL(next - 1)
	}}
	b.q = b.open()
	return b, c
}

// serveAll lets a machine run what it gets, telling of each claim, until the test ends.
func (m *machine) serveAll(claimed chan<- Ref) {
	m.background(func(ctx context.Context) error {
		for ctx.Err() == nil {
			d, err := m.tryNextIn(ctx)
			if err != nil {
				continue
			}
			c, err := d.Claim(ctx, []string{"GPU-0"})
			if err != nil {
				continue // dealt with
			}
			claimed <- c.Ref()
			if err := c.Finish(context.WithoutCancel(ctx), succeeded); err != nil && ctx.Err() == nil {
				return fmt.Errorf("finish %s: %w", c.Ref(), err)
			}
		}
		return nil
	})
}

// standing is how many pulls wait on the lane at the broker that leads it now, and its name; -1 while nobody does.
func (b *bundle) standing() (pulls int, leader string) {
	try, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	c, err := b.q.js.Consumer(try, StreamLanes, b.laneConsumer())
	if err != nil || c.CachedInfo().Cluster == nil || c.CachedInfo().Cluster.Leader == "" {
		return -1, ""
	}
	return c.CachedInfo().NumWaiting, c.CachedInfo().Cluster.Leader
}

func (b *bundle) laneConsumer() string {
	for _, l := range b.q.Lanes() {
		return laneConsumer(l.Lane)
	}
	return ""
}

func eventuallyIn(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// Waiting pulls live in the memory of the broker that leads the lane. When it steps down, and when it is killed together
// with the leader of the lanes' stream, they are left again at the next one, jobs start, and none runs twice.
func TestPullsStandAgainAfterALeaderIsGone(t *testing.T) {
	t.Parallel()
	b, cluster := clustered(t, quick())
	claimed := make(chan Ref, 1000)
	const machines = 3
	for i := range machines {
		m := b.machine(fmt.Sprint("m", i))
		m.serveAll(claimed)
		b.background(m.q.RunClerk)
	}
	var refs []Ref
	work := func(n int) {
		t.Helper()
		for range n {
			refs = append(refs, b.submit(newJob("clustered")))
		}
		for _, ref := range refs[len(refs)-n:] {
			b.wait(ref)
		}
	}
	all := func() bool { n, _ := b.standing(); return n >= machines }

	work(3)
	eventuallyIn(t, clusterPatience, "a pull of each machine waits", all)

	_, before := b.standing()
	subject := "$JS.API.CONSUMER.LEADER.STEPDOWN." + StreamLanes + "." + b.laneConsumer()
	if _, err := b.q.nc.Request(subject, nil, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	eventuallyIn(t, clusterPatience, "another broker leads the lane", func() bool {
		_, now := b.standing()
		return now != "" && now != before
	})
	began := time.Now()
	eventuallyIn(t, clusterPatience, "the pulls stand there", all)
	t.Logf("after it stepped down: all pulls again within %v", time.Since(began).Round(time.Millisecond))
	work(3)

	leader := cluster.Leader(StreamLanes)
	if _, err := b.q.nc.Request(subject, fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, leader), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	eventuallyIn(t, clusterPatience, "one broker leads the lane and its stream, and the pulls stand there", func() bool {
		n, now := b.standing()
		return n >= machines && now == leader
	})
	cluster.Kill(cluster.Index(leader))
	killed := time.Now()
	eventuallyIn(t, clusterPatience, "another broker leads the lane", func() bool {
		_, now := b.standing()
		return now != "" && now != leader
	})
	led := time.Now()
	eventuallyIn(t, clusterPatience, "the pulls stand there", all)
	t.Logf("after it was killed: a new leader after %v, all pulls again %v later",
		led.Sub(killed).Round(time.Millisecond), time.Since(led).Round(time.Millisecond))
	work(20)

	for _, ref := range refs {
		rec := b.record(ref)
		if rec == nil || len(rec.Attempts) != 1 || rec.State != job.Succeeded || b.runs(ref) != 1 || len(b.results(ref)) != 1 {
			t.Errorf("%s: %+v, %d runs, %d results", ref, rec, b.runs(ref), len(b.results(ref)))
		}
	}
	if len(claimed) != len(refs) {
		t.Errorf("%d claims of %d jobs", len(claimed), len(refs))
	}
}

// The news of a new leader alone is enough: here the old one still has the pull, so two stand until it runs out.
func TestPullIsLeftAgainAtANewLeader(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	m := b.machine("m1")
	claimed := make(chan Ref, 10)
	m.serveAll(claimed)
	b.background(m.q.RunClerk)
	waiting := func() int {
		c, err := b.q.js.Consumer(b.ctx, StreamLanes, b.laneConsumer())
		if err != nil {
			t.Fatal(err)
		}
		return c.CachedInfo().NumWaiting
	}
	b.wait(b.submit(newJob("before")))
	eventually(t, "a pull waits", func() bool { return waiting() == 1 })
	for _, lane := range []string{"of-another-lane", b.laneConsumer()} {
		if err := b.q.nc.Publish(prefixElected+lane, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "another one does", func() bool { return waiting() == 2 })
	b.wait(b.submit(newJob("after")))
	if len(claimed) != 2 {
		t.Errorf("%d claims of 2 jobs", len(claimed))
	}
}
