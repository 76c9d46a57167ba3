package bench

import (
	"testing"
	"time"
)

// pairs of dispatches, one bare and one of Berth's, are what a figure rests on; the first few only warm up.
const (
	pairs  = 150
	warmUp = 5
)

// From before the submit to the job's exec, on an idle system: at most twice the bare path.
func BenchmarkDispatch(b *testing.B) {
	for _, s := range syncs {
		for _, k := range kinds {
			b.Run(s.name+"/"+k.name, func(b *testing.B) {
				broker := broker(b, s.interval)
				plain, house := newBare(b, broker.Connect(), 1), newBerth(b, broker, 8, k.req)
				var without, with []time.Duration
				for b.Loop() {
					a, c := dispatches(b, plain, house, pairs)
					without, with = append(without, a...), append(with, c...)
				}
				b.ReportMetric(quantile(without, 0.5), "bare-p50-ms")
				b.ReportMetric(quantile(with, 0.5), "berth-p50-ms")
				b.ReportMetric(quantile(without, 0.99), "bare-p99-ms")
				b.ReportMetric(quantile(with, 0.99), "berth-p99-ms")
				target(b, quantile(with, 0.5)/quantile(without, 0.5), "p50-ratio", "at most", 2)
			})
		}
	}
}

func dispatches(tb testing.TB, plain *bare, house *berth, n int) (without, with []time.Duration) {
	tb.Helper()
	for i := range n + warmUp {
		house.rests(tb.Context())
		a := plain.dispatch(tb.Context())
		house.rests(tb.Context())
		b := house.dispatch(tb.Context())
		if i >= warmUp {
			without, with = append(without, a), append(with, b)
		}
	}
	return without, with
}

// Both paths, so that the benchmark does not rot.
func TestDispatch(t *testing.T) {
	t.Parallel()
	broker := broker(t, 0)
	plain, house := newBare(t, broker.Connect(), 1), newBerth(t, broker, 8, kinds[1].req)
	without, with := dispatches(t, plain, house, 3)
	for i := range 3 {
		if without[i] <= 0 || with[i] <= 0 {
			t.Errorf("dispatched in %v and %v", without[i], with[i])
		}
	}
}
