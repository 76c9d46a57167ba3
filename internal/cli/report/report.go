package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
)

// Input is everything the report is drawn from.
type Input struct {
	Result       job.Result
	Requirements *job.Requirements    // as the attempt had them; nil = unknown
	Utilization  map[string][]float64 // per device index, percent over the run; missing = no sparkline
	CardMB       map[string]int64     // memory of the devices by UUID, as far as known
	Untitled     bool                 // who prints it has named the job
}

const (
	barWidth   = 24
	sparkWidth = 30
	labelWidth = 8
)

// Write draws the report. Nothing is drawn for a job that never ran.
func Write(w io.Writer, term screen.Terminal, in Input) error {
	if in.Result.StartedAt == nil {
		return nil
	}
	p := &page{term: term}
	if !in.Untitled {
		p.title(in.Result)
	}
	p.facts(in.Result)
	p.bars(in)
	p.gpus(in)
	p.advice(in.Result)
	_, err := io.WriteString(w, p.b.String())
	return err
}

type page struct {
	b    strings.Builder
	term screen.Terminal
}

func (p *page) line(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	p.b.WriteString(text + "\n")
}

func (p *page) title(r job.Result) {
	title := "job " + Number(r)
	if r.Name != "" {
		title += " " + screen.Safe(r.Name)
	}
	p.line("%s  %s", p.term.Paint(screen.Bold, screen.Fit(title, p.term.Width)), p.term.Paint(StateColor(r.State), string(r.State)))
}

func (p *page) facts(r job.Result) {
	facts := []string{"ran " + screen.Span(screen.Seconds(r.RunSeconds))}
	if r.Machine != "" {
		facts[0] += " on " + screen.Safe(r.Machine)
	}
	facts = append(facts, "waited "+screen.Span(screen.Seconds(r.QueuedSeconds)))
	if r.Attempt > 1 {
		facts = append(facts, screen.Plural(r.Attempt, "attempt"))
	}
	if rep := r.Report; rep != nil && rep.GPUHours >= 0.005 {
		facts = append(facts, strconv.FormatFloat(rep.GPUHours, 'f', 2, 64)+" GPU-hours")
	}
	if rep := r.Report; rep != nil && rep.EnergyJoules != nil {
		facts = append(facts, screen.Energy(*rep.EnergyJoules))
	}
	for _, line := range joinWithin(facts, ", ", p.room(2)) {
		p.line("  %s", line)
	}
	if r.Reason != "" {
		p.line("  %s", p.term.Paint(StateColor(r.State), screen.Safe(r.Reason)))
	}
}

// bars: the whole job against what it held.
func (p *page) bars(in Input) {
	stats := devices(in.Result)
	if share, ok := meanUtilization(stats); ok {
		p.bar("GPU", share, fmt.Sprintf("%.0f %% of %s", 100*share, screen.Plural(len(stats), "GPU")))
	}
	if used, total, ok := peakMemory(stats, in.CardMB); ok {
		p.bar("memory", float64(used)/float64(total), "peak "+screen.MemoryOf(used, total))
	}
	rep := in.Result.Report
	if rep == nil {
		return
	}
	if rep.CPUSeconds != nil && in.Result.RunSeconds > 0 {
		p.cpu(*rep.CPUSeconds/in.Result.RunSeconds, in.Requirements)
	}
	if rep.PeakMemoryMB != nil {
		p.host(*rep.PeakMemoryMB, in.Requirements)
	}
}

func (p *page) cpu(busy float64, req *job.Requirements) {
	if req == nil || req.CPUs == 0 {
		p.line("  %s %.1f cores busy on average", screen.Pad("CPU", labelWidth, false), busy)
		return
	}
	share := busy / float64(req.CPUs)
	p.bar("CPU", share, fmt.Sprintf("%.0f %% of %s", 100*share, screen.Plural(req.CPUs, "core")))
}

func (p *page) host(peak int64, req *job.Requirements) {
	if req == nil || req.MemoryMB == 0 {
		p.line("  %s peak %s of host memory", screen.Pad("RAM", labelWidth, false), screen.Memory(peak))
		return
	}
	p.bar("RAM", float64(peak)/float64(req.MemoryMB), "peak "+screen.MemoryOf(peak, req.MemoryMB))
}

func (p *page) bar(label string, share float64, text string) {
	p.line("  %s %s  %s", screen.Pad(label, labelWidth, false), p.term.Paint(barColor(share), screen.Bar(share, barWidth)), text)
}

// barColor: unused is the thing to look at.
func barColor(share float64) screen.Color {
	switch {
	case share < 0.25:
		return screen.Red
	case share < 0.6:
		return screen.Yellow
	}
	return screen.Green
}

// gpus: a line for each device, more where the terminal is narrow.
func (p *page) gpus(in Input) {
	m := in.Result.GPUMonitoring
	if m == nil || len(m.GPUStats) == 0 {
		return
	}
	if m.SampleCount == 0 {
		p.line("  %s too short to be measured", screen.Pad("GPU", labelWidth, false))
	}
	for _, key := range sortedKeys(m.GPUStats) {
		s := m.GPUStats[key]
		label := screen.Pad("GPU "+key, labelWidth, false)
		spark := screen.Spark(in.Utilization[key], 100, sparkWidth)
		parts := nonEmpty(append([]string{screen.Safe(s.Name), spark}, deviceFacts(s)...)...)
		for _, line := range joinWithin(parts, "  ", p.room(labelWidth+3)) {
			p.line("  %s %s", label, line)
			label = strings.Repeat(" ", labelWidth)
		}
	}
}

// room is how many columns are left beside `taken` ones; 0 = any number.
func (p *page) room(taken int) int {
	if p.term.Width == 0 {
		return 0
	}
	return max(p.term.Width-taken, 20)
}

// joinWithin joins parts into lines of at most width columns, breaking between parts only.
func joinWithin(parts []string, sep string, width int) []string {
	var lines []string
	line := ""
	for _, part := range parts {
		switch {
		case line == "":
			line = part
		case width == 0 || screen.Width(line+sep+part) <= width:
			line += sep + part
		default:
			lines, line = append(lines, line), part
		}
	}
	return append(lines, line)
}

func deviceFacts(s job.GPUStats) []string {
	var facts []string
	if u := s.Utilization; u != nil {
		facts = append(facts, fmt.Sprintf("mean %.0f %%", u.Mean))
	}
	if m := s.MemoryUsedMB; m != nil {
		facts = append(facts, "peak "+screen.Memory(int64(m.Max)))
	}
	if t := s.TemperatureC; t != nil {
		facts = append(facts, fmt.Sprintf("max %.0f °C", t.Max))
	}
	if w := s.PowerDrawW; w != nil {
		facts = append(facts, fmt.Sprintf("mean %.0f W", w.Mean))
	}
	if s.EnergyJoules != nil {
		facts = append(facts, screen.Energy(*s.EnergyJoules))
	}
	return facts
}

func (p *page) advice(r job.Result) {
	for _, warning := range r.Warnings {
		p.note("warning", screen.Yellow, warning)
	}
	if r.Report == nil {
		return
	}
	for _, advice := range r.Report.Advice {
		p.note("advice", screen.Cyan, advice)
	}
}

func (p *page) note(label string, c screen.Color, text string) {
	for i, line := range screen.Wrap(screen.Safe(text), p.room(labelWidth+3)) {
		head := strings.Repeat(" ", labelWidth)
		if i == 0 {
			head = p.term.Paint(c, screen.Pad(label, labelWidth, false))
		}
		p.line("  %s %s", head, line)
	}
}

func nonEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

// sortedKeys orders device keys by number: "0", "0.1", "2", "10".
func sortedKeys(stats map[string]job.GPUStats) []string {
	keys := slices.Collect(maps.Keys(stats))
	slices.SortFunc(keys, func(a, b string) int {
		if d := len(whole(a)) - len(whole(b)); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return keys
}

func whole(key string) string {
	before, _, _ := strings.Cut(key, ".")
	return before
}
