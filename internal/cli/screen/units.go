package screen

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Ago says when t was, as seen from now: "now", "12s ago", "3h ago", "in 5m". The zero time is "-".
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + Span((-d).Truncate(time.Second))
	}
	return Span(d.Truncate(time.Second)) + " ago"
}

// Span is a duration in its two largest units at most: 20ms 0.8s 12s 3m05s 2h10m 4d3h.
func Span(d time.Duration) string {
	if d < 0 {
		return "-" + Span(-d)
	}
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		s := fmt.Sprintf("%.1f", d.Seconds())
		return strings.TrimSuffix(s, ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "m", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "m")
	}
	hours := int(d.Hours())
	if hours%24 == 0 {
		return fmt.Sprintf("%dd", hours/24)
	}
	return fmt.Sprintf("%dd%dh", hours/24, hours%24)
}

func two(a int, ua string, b int, ub string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, ua)
	}
	return fmt.Sprintf("%d%s%02d%s", a, ua, b, ub)
}

// Seconds turns a figure of a result into a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Memory is MiB in the unit people say: "640 MiB", "23.7 GiB", "1.1 TiB".
func Memory(mib int64) string {
	switch f := float64(mib); {
	case mib < 1024:
		return fmt.Sprintf("%d MiB", mib)
	case mib < 1024*1024:
		return short(f/1024) + " GiB"
	default:
		return short(f/1024/1024) + " TiB"
	}
}

// MemoryOf is a part of a whole in the whole's unit: "7.9 of 24 GiB".
func MemoryOf(part, whole int64) string {
	switch {
	case part < 100 && whole >= 1024:
		return Memory(part) + " of " + Memory(whole)
	case whole < 1024:
		return fmt.Sprintf("%d of %d MiB", part, whole)
	case whole < 1024*1024:
		return short(float64(part)/1024) + " of " + short(float64(whole)/1024) + " GiB"
	default:
		return short(float64(part)/1024/1024) + " of " + short(float64(whole)/1024/1024) + " TiB"
	}
}

func short(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0")
}

// Energy is joules in watt-hours as soon as those say more: "830 J", "2.4 Wh", "1.7 kWh".
func Energy(joules float64) string {
	switch wh := joules / 3600; {
	case wh < 0.1:
		return fmt.Sprintf("%.0f J", joules)
	case wh < 1000:
		return short(wh) + " Wh"
	default:
		return short(wh/1000) + " kWh"
	}
}

// Bar draws a share (0..1) in width cells.
func Bar(share float64, width int) string {
	share = min(max(share, 0), 1)
	if math.IsNaN(share) {
		share = 0
	}
	eighths := int(math.Round(share * float64(width*8)))
	full, rest := eighths/8, eighths%8
	bar := strings.Repeat("█", full)
	if rest > 0 {
		bar += string([]rune("▏▎▍▌▋▊▉")[rest-1])
		full++
	}
	return bar + strings.Repeat("·", width-full)
}

// Spark draws a gauge over time in at most width cells on a fixed scale 0..top; a cell is the mean of its points, a gap
// where none of them was read (NaN).
func Spark(points []float64, top float64, width int) string {
	if len(points) == 0 || top <= 0 || width <= 0 {
		return ""
	}
	cells := min(len(points), width)
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for c := range cells {
		from, to := c*len(points)/cells, (c+1)*len(points)/cells
		sum, n := 0.0, 0
		for _, p := range points[from:to] {
			if !math.IsNaN(p) {
				sum, n = sum+p, n+1
			}
		}
		if n == 0 {
			b.WriteRune(' ')
			continue
		}
		level := int(sum / float64(n) / top * float64(len(levels)))
		b.WriteRune(levels[min(max(level, 0), len(levels)-1)])
	}
	return b.String()
}
