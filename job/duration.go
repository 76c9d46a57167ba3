package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time; 0 is absent. It is written "12h", "90s", "1d12h", or as Slurm does: "1-02:03:04"
// (days-hours:minutes:seconds), "02:03:04", "30:00" (minutes:seconds). A bare number is refused: Slurm means minutes
// by it and most others seconds.
type Duration time.Duration

// maxDuration is ten years: larger is a typing error.
const maxDuration = 10 * 365 * 24 * time.Hour

// ParseDuration reads every form of Duration; "" is 0.
func ParseDuration(s string) (Duration, error) {
	s = strings.TrimSpace(s)
	var (
		d   time.Duration
		err error
	)
	switch {
	case s == "":
		return 0, nil
	case s[0] == '-':
		return 0, fmt.Errorf("%s is negative", quoted(s))
	case strings.ContainsAny(s, ":-"):
		d, err = parseClock(s)
	default:
		d, err = parseUnits(s)
	}
	if err != nil {
		return 0, err
	}
	if d > maxDuration {
		return 0, fmt.Errorf("%s is longer than ten years", quoted(s))
	}
	return Duration(d), nil
}

var durationUnits = map[string]float64{
	"ms": float64(time.Millisecond), "s": float64(time.Second), "m": float64(time.Minute), "h": float64(time.Hour),
	"d": float64(24 * time.Hour), "w": float64(7 * 24 * time.Hour),
}

// parseUnits reads "1d12h", "90s", "1.5h".
func parseUnits(s string) (time.Duration, error) {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' || r == '.' }
	var total float64
	for rest := s; rest != ""; {
		digits := strings.IndexFunc(rest, func(r rune) bool { return !isDigit(r) })
		if digits < 0 {
			return 0, fmt.Errorf("%s has no unit: write %ss, %sm or %sh", quoted(s), rest, rest, rest)
		}
		number, err := strconv.ParseFloat(rest[:digits], 64)
		unit := rest[digits:]
		if next := strings.IndexFunc(unit, isDigit); next >= 0 {
			unit = unit[:next]
		}
		factor, known := durationUnits[strings.TrimSpace(unit)]
		if err != nil || !known {
			return 0, fmt.Errorf("%s is not a duration: want for example 90s, 30m, 12h, 1d12h or 1-02:03:04", quoted(s))
		}
		total += number * factor
		if total > float64(maxDuration) {
			return maxDuration + 1, nil
		}
		rest = strings.TrimSpace(rest[digits+len(unit):])
	}
	return time.Duration(total), nil
}

// parseClock reads Slurm's forms: D-H, D-H:M, D-H:M:S, H:M:S, M:S.
func parseClock(s string) (time.Duration, error) {
	wrong := func() (time.Duration, error) {
		return 0, fmt.Errorf("%s is not a duration: want days-hours:minutes:seconds, hours:minutes:seconds or minutes:seconds", quoted(s))
	}
	days, clock, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, clock = "0", s
	}
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	parts := strings.Split(clock, ":")
	if len(parts) > len(units) {
		return wrong()
	}
	if !hasDays && len(parts) == 2 {
		units = units[1:]
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return wrong()
	}
	total := time.Duration(n) * 24 * time.Hour
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 20)
		if err != nil {
			return wrong()
		}
		total += time.Duration(n) * units[i]
	}
	return total, nil
}

// Std is the time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the shortest form with units: "12h", "1h30m", "90ms".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDuration.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}

// UnmarshalJSON reads text; a number is refused with the units it could mean.
func (d *Duration) UnmarshalJSON(data []byte) error { return unmarshalText(data, d.UnmarshalText) }
