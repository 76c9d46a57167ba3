package job_test

import (
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func TestParseMoment(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 3, 1, 18, 30, 15, 0, zone)
	for text, want := range map[string]string{
		"2h": "2026-03-01T20:30:15+01:00", "+90m": "2026-03-01T20:00:15+01:00", "now+1d": "2026-03-02T18:30:15+01:00",
		"18:31": "2026-03-01T18:31:00+01:00", "18:30": "2026-03-02T18:30:00+01:00", "06:00:05": "2026-03-02T06:00:05+01:00",
		"2026-04-01": "2026-04-01T00:00:00+01:00", "2026-04-01 08:00": "2026-04-01T08:00:00+01:00",
		"2026-04-01T08:00": "2026-04-01T08:00:00+01:00", "2026-04-01T08:00:00Z": "2026-04-01T08:00:00Z",
		" 2026-04-01T08:00:00+05:00 ": "2026-04-01T08:00:00+05:00",
	} {
		got, err := job.ParseMoment(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v; want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"", "now", "0s", "-2h", "12", "25:00", "tomorrow", "2026-13-01", "2026-02-30", "soon", "1:2:3:4"} {
		if got, err := job.ParseMoment(text, now); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestParsePast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 18, 30, 15, 0, time.FixedZone("here", 3600))
	for text, want := range map[string]string{
		"2h": "2026-03-01T16:30:15+01:00", "1d12h": "2026-02-28T06:30:15+01:00",
		"18:30": "2026-03-01T18:30:00+01:00", "18:31": "2026-02-28T18:31:00+01:00", "06:00:05": "2026-03-01T06:00:05+01:00",
		"2026-03-01": "2026-03-01T00:00:00+01:00", "2026-02-01 08:00": "2026-02-01T08:00:00+01:00",
		" 2026-03-01T17:30:15Z ": "2026-03-01T17:30:15Z",
	} {
		got, err := job.ParsePast(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v; want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"", "0s", "-2h", "+2h", "now+2h", "12", "yesterday", "2026-02-30", "2026-03-02", "2026-03-01T17:30:16Z"} {
		if got, err := job.ParsePast(text, now); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestCheckWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { x := now.Add(d); return &x }
	for _, c := range []struct {
		name string
		spec job.Spec
		ok   bool
	}{
		{"nothing", job.Spec{}, true},
		{"to come", job.Spec{Deadline: at(time.Second)}, true},
		{"this very moment", job.Spec{Deadline: at(0)}, false},
		{"past", job.Spec{Deadline: at(-time.Hour)}, false},
		{"begins in time", job.Spec{Begin: at(time.Hour), Deadline: at(2 * time.Hour)}, true},
		{"begins too late", job.Spec{Begin: at(2 * time.Hour), Deadline: at(2 * time.Hour)}, false},
		{"a begin in the past is now", job.Spec{Begin: at(-time.Hour)}, true},
		{"waits a negative time", job.Spec{WaitTimeout: -1}, false},
	} {
		c.spec.Command = job.Command{"true"}
		err := c.spec.CheckWhen(now)
		if err == nil {
			err = job.Validate(c.spec)
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
