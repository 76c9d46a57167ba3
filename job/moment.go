package job

import (
	"fmt"
	"strings"
	"time"
)

// MomentForms says how a moment may be written, for help and messages.
const MomentForms = "2h (from now), 18:30 (the next one), 2026-01-31, 2026-01-31 08:00 or 2026-01-31T08:00:00+01:00"

// clockForms are times with a day, in the zone of the reader.
var clockForms = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// ParseMoment reads a point in time as people write one: a span from now ("2h", "+90m", Slurm's "now+2h"), a time of day
// (the next one), a day, or a full time. now gives the zone.
func ParseMoment(s string, now time.Time) (time.Time, error) {
	text := strings.TrimSpace(s)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, form := range clockForms {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, nil
		}
	}
	if clock, ok := timeOfDay(text); ok {
		return nextTime(now, clock), nil
	}
	span := strings.TrimPrefix(strings.TrimPrefix(text, "now"), "+")
	if d, err := ParseDuration(span); err == nil && d > 0 && !strings.Contains(span, ":") {
		return now.Add(d.Std()), nil
	}
	return time.Time{}, fmt.Errorf("%s is not a time: want %s", quoted(s), MomentForms)
}

func timeOfDay(text string) (time.Time, bool) {
	for _, form := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// nextTime is the next moment at which clocks show that time of day.
func nextTime(now, clock time.Time) time.Time {
	on := func(day int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+day, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
	}
	if today := on(0); today.After(now) {
		return today
	}
	return on(1)
}

// PastForms says how a moment that has passed may be written, for help and messages.
const PastForms = "2h (ago), 18:30 (the last one), 2026-01-31, 2026-01-31 08:00 or 2026-01-31T08:00:00+01:00"

// ParsePast reads a point in the past as people write one: a span before now ("2h"), a time of day (the last one), a day,
// or a full time. now gives the zone.
func ParsePast(s string, now time.Time) (time.Time, error) {
	text := strings.TrimSpace(s)
	if d, err := ParseDuration(text); err == nil && d > 0 && !strings.Contains(text, ":") {
		return now.Add(-d.Std()), nil
	}
	if clock, ok := timeOfDay(text); ok {
		return nextTime(now, clock).AddDate(0, 0, -1), nil
	}
	at, err := ParseMoment(text, now)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("%s is not a time: want %s", quoted(s), PastForms)
	case at.After(now):
		return time.Time{}, fmt.Errorf("%s is yet to come: want %s", quoted(s), PastForms)
	}
	return at, nil
}
