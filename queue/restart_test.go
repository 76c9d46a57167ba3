package queue

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// A broker that is stopped and started again on its store neither loses a running job nor has it started twice, and a
// job that waits is given out after it.
func TestBrokerRestartWhileAJobRuns(t *testing.T) {
	t.Parallel()
	restartBroker(t, Options{ClaimTTL: 30 * time.Second, AckWait: time.Second}, 3*time.Second)
}

func TestBrokerDownForAMinute(t *testing.T) {
	t.Parallel()
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("stops the broker for 60 s; set BERTH_LONG=1 (make test-all)")
	}
	restartBroker(t, Options{}, time.Minute)
}

func restartBroker(t *testing.T, opts Options, down time.Duration) {
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	running := b.submit(newJob("running"))
	holder, idle := b.machine("m1"), b.machine("m2")
	c := holder.claim()
	lost := make(chan error, 1)
	b.background(func(ctx context.Context) error {
		if err := c.Hold(ctx); err != nil {
			lost <- err
		}
		return nil
	})
	b.broker.Stop()
	select { // the broker is away for so long; the claim must stand all the while
	case err := <-lost:
		t.Fatalf("the claim did not survive: %v", err)
	case <-time.After(down):
	}
	b.broker.Start()

	waiting := b.submit(newJob("waiting"))
	d := idle.next() // longer than AckWait may pass here: the running job must not come
	if d.Ref() != waiting {
		t.Fatalf("%s was given out", d.Ref())
	}
	other, err := d.Claim(b.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if extra, err := idle.tryNext(3 * opts.withDefaults().AckWait / 2); err == nil {
		t.Fatalf("%s was given out as well", extra.Ref())
	}
	for _, claim := range []*Claim{c, other} {
		if err := claim.Finish(b.ctx, succeeded); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.wait(running); r.Attempt != 1 || r.State != job.Succeeded {
		t.Errorf("the running job: %+v", r)
	}
	if err := errors.Join(holder.s.Close(b.ctx), idle.s.Close(b.ctx)); err != nil {
		t.Error(err)
	}
	eventually(t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
}
