package queue

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What machines hold reaches every worker as one sum: at once from presence, then from the janitor, who is
// replaced when he goes and forgets machines that leave.
func TestHoldingsAreAddedUp(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	announce := func(name string, gpus map[string]int) {
		hours := map[string]float64{}
		for project, n := range gpus {
			hours[project] = float64(n) / 2
		}
		if err := b.q.Announce(t.Context(), Machine{Name: name, Projects: gpus, Hours: hours}); err != nil {
			t.Fatal(err)
		}
	}
	announce("m 1", map[string]int{"a": 2})
	announce("m.2", map[string]int{"a": 1, "b": 4})

	sums := make(chan Holdings, 64)
	b.background(func(ctx context.Context) error {
		return b.q.FollowHoldings(ctx, func(h Holdings) { sums <- h })
	})
	want := func(why string, gpus map[string]int) {
		t.Helper()
		var last Holdings
		for late := time.After(patience); ; {
			select {
			case last = <-sums:
				if cmp.Equal(gpus, last.GPUs) && last.Hours["a"] == float64(gpus["a"])/2 {
					return
				}
			case <-late:
				t.Fatalf("%s: want %v, the last sum was %v", why, gpus, last)
			}
		}
	}
	want("without a janitor", map[string]int{"a": 3, "b": 4})

	keeper := func(name string) (stop func()) {
		q := b.open()
		return b.background(func(ctx context.Context) error { return q.RunJanitor(ctx, name, time.Hour) })
	}
	first := keeper("first")
	announce("m 1", map[string]int{"c": 8})
	want("one machine has changed", map[string]int{"a": 1, "b": 4, "c": 8})
	if err := b.q.Depart(t.Context(), "m.2"); err != nil {
		t.Fatal(err)
	}
	want("one has left", map[string]int{"c": 8})
	if err := b.q.nc.Publish(subjectHoldings, []byte("\x00 garbage")); err != nil {
		t.Fatal(err)
	}
	keeper("second")
	first()
	announce("m 3", map[string]int{"a": 1})
	want("another keeps the books", map[string]int{"a": 1, "c": 8})
}

func TestSilentMachinesHoldNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	heard := func(ago time.Duration) presence {
		return presence{Machine{Projects: map[string]int{"a": 1}}, now.Add(-ago)}
	}
	sum := sumOf(map[string]presence{"x": heard(0), "y": heard(presenceFor - time.Second), "z": heard(presenceFor)}, now)
	if sum.GPUs["a"] != 2 {
		t.Errorf("%v, want the two that were heard lately", sum)
	}
}

// The broker's load grows with the fleet and not with its square.
func TestHoldingsAreToldLessOftenToMore(t *testing.T) {
	t.Parallel()
	for _, machines := range []int{1, 50, 1250, 10000} {
		perSecond := float64(machines) / holdingsPause(machines).Seconds()
		if perSecond > 1000 {
			t.Errorf("%d machines: %.0f messages a second", machines, perSecond)
		}
	}
}
