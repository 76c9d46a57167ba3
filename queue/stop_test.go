package queue

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Everything ends promptly when it is told to while the broker is away: a service manager does not wait.
func TestEverythingEndsWithoutABroker(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	q := b.open()
	_, lane := b.lane(4096, 50)
	array := newJob("array")
	b.submit(array)
	m := b.machineOn(q, "m1")
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan string, 8)
	run := func(name string, f func() error) {
		go func() {
			if err := f(); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			ended <- name
		}()
	}
	c := func() *Claim { stop := b.background(q.RunClerk); defer stop(); return m.claim() }()
	run("clerk", func() error { return q.RunClerk(ctx) })
	run("control", func() error { return q.ServeControl(ctx, MachineControl{Machine: "m1"}) })
	run("hold", func() error { return c.Hold(ctx) })
	run("next", func() error { _, err := m.p.Next(ctx, []Want{{Lane: lane}}); return err })
	eventually(t, "a pull stands", func() bool { return b.waitingPulls(lane) == 1 })

	b.broker.Stop()
	cancel()
	deadline := time.After(patience / 2)
	for range 4 {
		select {
		case <-ended:
		case <-deadline:
			t.Fatal("something does not end while the broker is away")
		}
	}
	short, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if err := m.p.Close(short); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close the puller: %v", err)
	}
	m.s.Detach()
	q.Close()
}
