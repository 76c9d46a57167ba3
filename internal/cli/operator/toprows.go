package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/queue"
)

// gpuLines are the GPUs of all machines, a line each.
func (p *topPage) gpuLines(term screen.Terminal) []string {
	who := map[string]string{}
	for _, v := range p.look.running {
		who[v.Ref.String()] = v.User + " " + nameOf(v)
	}
	var rows []machineGPU
	for _, m := range p.look.machines {
		for _, g := range m.GPUs {
			if r := (machineGPU{1, m.Name, idle(g), g}); p.wants(m.Name, g.Name, holder(r, who)) {
				rows = append(rows, r)
			}
		}
	}
	slices.SortStableFunc(rows, topOrders[p.sorted].first)
	bar := max(min((term.Width-56)/3, 24), 4)
	title := fmt.Sprintf("%-12s %3s  %-*s %5s  %-*s %-14s %6s %6s  %s", "MACHINE", "GPU", bar, "LOAD", "", bar, "MEMORY", "", "TEMP", "POWER", "HELD BY")
	lines := []string{term.Paint(screen.Dim, screen.Fit(title, term.Width))}
	for _, r := range rows {
		lines = append(lines, gpuLine(term, r, bar, holder(r, who)))
	}
	if len(rows) == 0 {
		lines = append(lines, screen.Fit("no GPU to show", term.Width))
	}
	return lines
}

func gpuLine(term screen.Terminal, r machineGPU, bar int, held string) string {
	load, memory, used := strings.Repeat(" ", bar), strings.Repeat(" ", bar), "-"
	if r.UtilizationPercent != nil {
		load = screen.Bar(*r.UtilizationPercent/100, bar)
	}
	if share := memoryShare(r.GPU); share >= 0 {
		memory, used = screen.Bar(share, bar), screen.MemoryOf(r.MemoryTotalMB-*r.MemoryFreeMB, r.MemoryTotalMB)
	}
	color := gpuColor(r.State)
	if r.Active > 0 {
		color = screen.Cyan
	}
	cells := []struct {
		text  string
		color screen.Color
	}{
		{screen.Pad(screen.Fit(screen.Safe(r.Machine), 12), 12, false) + " ", screen.Plain},
		{fmt.Sprintf("%3d  ", r.Index), screen.Plain},
		{load, screen.Cyan}, {fmt.Sprintf(" %5s  ", gauge(r.UtilizationPercent, "%.0f %%")), screen.Plain},
		{memory, screen.Cyan}, {" " + screen.Pad(used, 14, false) + " ", screen.Plain},
		{fmt.Sprintf("%6s %6s  ", gauge(r.TemperatureC, "%.0f °C"), gauge(r.PowerW, "%.0f W")), screen.Plain},
		{screen.Safe(held), color},
	}
	line, left := "", term.Width
	for _, c := range cells {
		if left <= 0 {
			break
		}
		text := screen.Fit(c.text, left)
		left -= screen.Width(text)
		line += term.Paint(c.color, text)
	}
	return line
}

// holder says who has a GPU: jobs and leases, strangers, or why nobody may.
func holder(r machineGPU, who map[string]string) string {
	var parts []string
	for _, ref := range r.Jobs {
		parts = append(parts, strings.TrimSpace(ref+" "+who[ref]))
	}
	if len(r.Foreign) > 0 {
		parts = append(parts, "foreign: "+strings.Join(r.Foreign, ", "))
	}
	if len(parts) == 0 && r.State != "ready" {
		parts = append(parts, strings.TrimSuffix(r.State+": "+r.Why, ": "))
	}
	if len(parts) == 0 {
		return "free"
	}
	return strings.Join(parts, ", ")
}

// jobLines are the jobs that run, with how far they say they are.
func (p *topPage) jobLines(term screen.Terminal) []string {
	var running []queue.JobView
	for _, v := range p.look.running {
		if p.wants(v.Ref.String(), nameOf(v), v.User, v.Project, v.Machine) {
			running = append(running, v)
		}
	}
	if len(running) == 0 {
		return nil
	}
	const form = "%s %s %s %s %s %6s  %s"
	col := func(text string, width int) string {
		return screen.Pad(screen.Fit(screen.Safe(text), width), width, false)
	}
	title := fmt.Sprintf(form, col("JOB", 8), col("NAME", 18), col("USER", 10), col("MACHINE", 12), col("GPUS", 4), "RAN", "PROGRESS")
	lines := []string{"", term.Paint(screen.Dim, screen.Fit(title, term.Width))}
	for _, v := range running {
		progress := ""
		if v.Progress != nil {
			progress = screen.Safe(progressText(*v.Progress))
		}
		line := fmt.Sprintf(form, col(v.Ref.String(), 8), col(nameOf(v), 18), col(v.User, 10), col(v.Machine, 12), col(fmt.Sprint(len(v.Devices)), 4),
			ranText(v, p.look.at), progress)
		lines = append(lines, screen.Fit(line, term.Width))
	}
	if p.look.counts.Running > 0 && len(p.look.running) == topRunning {
		lines = append(lines, screen.Fit("and more: berth status --state running", term.Width))
	}
	return lines
}
