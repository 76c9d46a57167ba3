package bench

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// bareFleet is machines without Berth: each has a connection of its own, as its submitter has, and stands at the one
// queue with a waiting pull.
type bareFleet struct {
	*bare
	arrived chan *nats.Msg
}

func newBareFleet(tb testing.TB, connect func(...nats.Option) *nats.Conn, machines int) *bareFleet {
	tb.Helper()
	f := &bareFleet{bare: newBare(tb, connect(), 0), arrived: make(chan *nats.Msg)}
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	for range machines {
		f.addSlot(connect())
	}
	tb.Cleanup(func() { // before the connections are closed
		cancel()
		_ = group.Wait() // they end with ctx
	})
	for _, s := range f.slots {
		group.Go(func() error { return f.stand(ctx, s) })
	}
	return f
}

// stand keeps a pull of one machine waiting.
func (f *bareFleet) stand(ctx context.Context, s *slot) error {
	for {
		if err := s.ask(); err != nil {
			return err
		}
		msg, err := s.take(ctx)
		if err != nil {
			return err
		}
		select {
		case f.arrived <- msg:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dispatch is the time from before the publish to the exec, on an idle fleet all of whose machines wait but for a few
// that are just asking again.
func (f *bareFleet) dispatch(ctx context.Context) time.Duration {
	f.tb.Helper()
	f.waits(ctx, (9*len(f.slots)+9)/10)
	f.jobs++
	began := time.Now()
	if err := f.publish(ctx, f.jobs); err != nil {
		f.tb.Fatal(err)
	}
	select {
	case msg := <-f.arrived:
		return f.started(ctx, msg).Sub(began)
	case <-ctx.Done():
		f.tb.Fatal(ctx.Err())
		return 0
	}
}
