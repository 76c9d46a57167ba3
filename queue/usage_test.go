package queue

import (
	"math"
	"testing"
	"time"
)

func TestUsageDecaysByHalfLives(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for _, u := range []struct {
		project string
		at      time.Time
		seconds float64
		id      string
	}{
		{"vision", now, 7200, "1.1"},
		{"vision", now, 7200, "1.1"}, // a second try of the same run counts once
		{"vision", now.Add(-48 * time.Hour), 8 * 3600, "2.1"},
		{"speech", now.Add(-24 * time.Hour), 4 * 3600, "3.1"},
		{"idle", now, 0.2, "4.1"},
	} {
		if err := b.q.AddUsage(t.Context(), u.project, u.at, u.seconds, u.id); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.q.Usage(t.Context(), 24*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"vision": 2 + 8.0/4, "speech": 4.0 / 2}
	if len(got) != len(want) {
		t.Errorf("usage of %v, want %v", got, want)
	}
	for p, w := range want {
		if math.Abs(got[p]-w) > 0.01 {
			t.Errorf("%s used %.3f GPU hours, want %.3f", p, got[p], w)
		}
	}
}

func TestDecayed(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		hours         float64
		age, halfLife time.Duration
		want          float64
	}{
		{8, 0, 7 * day, 8}, {8, 7 * day, 7 * day, 4}, {8, 14 * day, 7 * day, 2}, {8, 28 * day, 7 * day, 0.5},
		{8, 3 * day, 3 * day, 4}, {0, day, day, 0}, {2, day, 2 * day, math.Sqrt2},
		{8, -time.Hour, 7 * day, 8}, // counted by a clock that runs ahead
	} {
		if got := decayed(c.hours, c.age, c.halfLife); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v hours, %s old, half-life %s: %v, want %v", c.hours, c.age, c.halfLife, got, c.want)
		}
	}
}
