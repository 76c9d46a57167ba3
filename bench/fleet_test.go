package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// fleet is machines without processes: each has its own connection, session and pulls, as a worker has them, and ends
// what it is given at once.
type fleet struct {
	tb       testing.TB
	priority int
	group    sync.WaitGroup
	took     func(queue.Ref)
}

// startFleet starts n machines that ask for every lane with one priority, the first with a clerk. took is told of every
// claim; nil: they give back what they get.
func startFleet(tb testing.TB, connect func(...nats.Option) *nats.Conn, n, priority int, took func(queue.Ref)) {
	tb.Helper()
	f := &fleet{tb: tb, priority: priority, took: took}
	ctx, cancel := context.WithCancel(context.Background())
	connections := make([]*nats.Conn, n)
	for i := range connections {
		connections[i] = connect()
	}
	tb.Cleanup(func() { cancel(); f.group.Wait() }) // before the connections are closed
	for i, nc := range connections {
		q, err := queue.Open(ctx, nc, queue.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		s, err := q.OpenSession(ctx, fmt.Sprint("lean", i), "1")
		if err != nil {
			tb.Fatal(err)
		}
		p, err := q.NewPuller(s)
		if err != nil {
			tb.Fatal(err)
		}
		f.group.Go(func() {
			f.serve(ctx, q, p)
			_ = p.Close(context.Background()) // the broker goes too
			s.Detach()
			q.Close()
		})
		if took != nil && i == 0 {
			f.group.Go(func() { _ = q.RunClerk(ctx) }) // it ends with ctx
		}
	}
}

func (f *fleet) serve(ctx context.Context, q *queue.Queue, p *queue.Puller) {
	for ctx.Err() == nil {
		changed := q.LanesChanged()
		var wants []queue.Want
		for _, l := range q.Lanes() {
			wants = append(wants, queue.Want{Lane: l.Lane, Priority: f.priority})
		}
		turn, stop := context.WithCancel(ctx)
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			select {
			case <-changed:
				stop()
			case <-turn.Done():
			}
		}()
		d, err := p.Next(turn, wants)
		stop()
		<-seen
		if err == nil {
			f.deal(ctx, d)
		}
	}
}

func (f *fleet) deal(ctx context.Context, d *queue.Delivery) {
	if f.took == nil {
		_ = d.Return(ctx, 0, "only for show") // it comes back by itself otherwise
		return
	}
	claim, err := d.Claim(ctx, nil)
	if err != nil {
		return
	}
	f.took(claim.Ref())
	if err := claim.Finish(context.WithoutCancel(ctx), job.Result{Outcome: job.OutcomeSucceeded, Exit: &job.Exit{}}); err != nil && ctx.Err() == nil {
		f.tb.Errorf("finish %s: %v", claim.Ref(), err)
	}
}
