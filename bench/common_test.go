package bench

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/natsembed/natstest"
)

// trivial is the job that does nothing.
var trivial = []string{"/bin/true"}

// submitters is how many clients submit at a time where that is not what is measured.
const submitters = 4

// syncs are the two settings of how often the broker forces what it wrote to the disk. Both sides of a ratio always have
// the same: they share one broker.
var syncs = []struct {
	name     string
	interval time.Duration
}{{"sync=always", 0}, {"sync=2m", 2 * time.Minute}}

func broker(tb testing.TB, sync time.Duration) *natstest.Broker {
	tb.Helper()
	return natstest.New(tb, func(o *natsembed.Options) { o.SyncInterval = sync })
}

// inParallel does n things, workers at a time.
func inParallel(workers, n int, do func(i int) error) error {
	var next atomic.Int64
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// eventually asks until it is so.
func eventually(tb testing.TB, so func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for !so() {
		select {
		case <-tick.C:
		case <-timeout:
			tb.Fatal("it did not become so within a minute")
		}
	}
}
