package bench

import (
	"testing"
	"time"
)

const (
	manyJobs = 2000
	turns    = 5 // the two paths take turns, so that a busy moment of the machine meets both
	slots    = 8
)

// 2,000 trivial jobs through 8 slots: at least half the jobs per second of a bare loop.
func BenchmarkThroughput(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			broker := broker(b, 0)
			plain, house := newBare(b, broker.Connect(), slots), newBerth(b, broker, slots, k.req)
			var without, with time.Duration
			n := 0
			for b.Loop() {
				a, c := throughs(b, plain, house, manyJobs)
				without, with, n = without+a, with+c, n+manyJobs
			}
			b.ReportMetric(perSecond(n, without), "bare-jobs/s")
			b.ReportMetric(perSecond(n, with), "berth-jobs/s")
			target(b, without.Seconds()/with.Seconds(), "rate-ratio", "at least", 0.5)
		})
	}
}

func throughs(tb testing.TB, plain *bare, house *berth, n int) (without, with time.Duration) {
	tb.Helper()
	for range turns {
		without += plain.work(tb.Context(), n/turns)
		with += house.through(tb.Context(), n/turns)
	}
	return without, with
}

// Both paths, so that the benchmark does not rot.
func TestThroughput(t *testing.T) {
	t.Parallel()
	broker := broker(t, 0)
	plain, house := newBare(t, broker.Connect(), 2), newBerth(t, broker, 2, kinds[0].req)
	if without, with := throughs(t, plain, house, 4*turns); without <= 0 || with <= 0 {
		t.Errorf("took %v and %v", without, with)
	}
}
