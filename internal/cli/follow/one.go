package follow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// one is how a single job or task stands.
type one struct {
	ref     queue.Ref
	queued  time.Time
	rec     *job.Record    // nil: never claimed
	machine *queue.Machine // nil: not heard of
}

// line says "job 7 running 2m05s on titan  GPU 0: 87 %, 7.9 of 24 GiB  ████···· 11/54 epochs"; what is not known is left
// out.
func (o *one) line(now time.Time) string {
	title := "job " + o.ref.String()
	switch {
	case o.rec == nil:
		return title + " queued " + since(o.queued, now)
	case o.rec.State != job.Running:
		text := title + " " + string(o.rec.State)
		if !o.rec.State.Final() {
			text += " " + since(o.rec.QueuedAt, now)
		}
		if o.rec.ReasonText != "" {
			text += ": " + o.rec.ReasonText
		}
		return text
	}
	parts := []string{title + " running"}
	if o.rec.StartedAt != nil {
		parts[0] += " " + since(*o.rec.StartedAt, now)
	}
	parts[0] += " on " + o.rec.Machine
	if m := o.machine; m != nil && m.Name == o.rec.Machine {
		if gpus := o.gpus(m); gpus != "" {
			parts = append(parts, gpus)
		}
		if p, said := m.Progress[o.ref.String()]; said {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", screen.Bar(p.Share(), shortBar), p.Figures(), p.Text)))
		}
	}
	return strings.Join(parts, "  ")
}

// shortBar leaves room for the rest of the line.
const shortBar = 8

// gpus says how busy the job's cards are, together, and how full: with everything that is on them.
func (o *one) gpus(m *queue.Machine) string {
	var indexes []string
	var busy float64
	var used, whole int64
	rated, filled := 0, 0
	for _, g := range m.GPUs {
		if !slices.Contains(o.rec.Devices, g.UUID) {
			continue
		}
		indexes = append(indexes, fmt.Sprint(g.Index))
		if g.UtilizationPercent != nil {
			busy, rated = busy+*g.UtilizationPercent, rated+1
		}
		if g.MemoryUsedMB != nil && g.MemoryTotalMB > 0 {
			used, whole, filled = used+*g.MemoryUsedMB, whole+g.MemoryTotalMB, filled+1
		}
	}
	var figures []string
	if rated > 0 && rated == len(indexes) {
		figures = append(figures, fmt.Sprintf("%.0f %%", busy/float64(rated)))
	}
	if filled > 0 && filled == len(indexes) {
		figures = append(figures, screen.MemoryOf(used, whole))
	}
	if len(figures) == 0 {
		return ""
	}
	name := "GPU "
	if len(indexes) > 1 {
		name = "GPUs "
	}
	return name + strings.Join(indexes, ",") + ": " + strings.Join(figures, ", ")
}

// since is a time that goes on, in whole seconds.
func since(t, now time.Time) string {
	if d := now.Sub(t).Truncate(time.Second); d > 0 {
		return screen.Span(d)
	}
	return "0s"
}
