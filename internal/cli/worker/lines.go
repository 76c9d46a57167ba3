package worker

import (
	"fmt"
	"io"
	"strings"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/worker"
)

// firstLines says what this worker found and what it pulls for.
func firstLines(w io.Writer, term screen.Terminal, r worker.Ready, server string) error {
	fmt.Fprintf(w, "worker %s on %s, GPUs by %s, runs held by %s\n", term.Paint(screen.Bold, screen.Safe(r.Machine)), screen.Safe(server),
		screen.Safe(r.Source), screen.Safe(r.Isolation))
	if err := gpuLines().Print(w, term, table.Table, r.Status.GPUs); err != nil {
		return err
	}
	if r.Adopted > 0 {
		fmt.Fprintf(w, "%s of the worker before go on\n", screen.Plural(r.Adopted, "run"))
	}
	_, err := fmt.Fprintf(w, "%s\n", pullsFor(r.Status))
	return err
}

func pullsFor(s gpuslots.Status) string {
	jobs := fmt.Sprintf("jobs without a GPU, %s at a time", screen.Plural(s.CPUs, "core"))
	if len(s.GPUs) == 0 {
		return "no GPU found; pulls for " + jobs
	}
	slots, ready := 0, 0
	for _, g := range s.GPUs {
		slots += g.Slots
		if string(g.State) == "ready" {
			ready++
		}
	}
	return fmt.Sprintf("pulls for %s on %s (%d ready now), and %s", screen.Plural(slots, "GPU slot"), screen.Plural(len(s.GPUs), "GPU"), ready, jobs)
}

func gpuLines() table.View[gpuslots.GPUStatus] {
	type row = gpuslots.GPUStatus
	return table.View[row]{Columns: []table.Column[row]{
		{Title: "GPU", Cell: func(g row) table.Cell { return table.Text(g.Key) }},
		{Title: "MODEL", Shrink: 8, Cell: func(g row) table.Cell { return table.Text(g.Name) }},
		{Title: "FREE", Right: true, Cell: func(g row) table.Cell { return table.Text(freeText(g)) }},
		{Title: "UTIL", Right: true, Cell: func(g row) table.Cell { return table.Text(utilText(g)) }},
		{Title: "SCORE", Right: true, Drop: 2, Cell: func(g row) table.Cell { return table.Text(fmt.Sprintf("%.2f", g.Score)) }},
		{Title: "SLOTS", Right: true, Drop: 1, Cell: func(g row) table.Cell { return table.Text(fmt.Sprintf("%d/%d", g.Active, g.Slots)) }},
		{Title: "STATE", Shrink: 12, Cell: stateCell},
	}}
}

func freeText(g gpuslots.GPUStatus) string {
	if g.FreeMB == nil {
		return "-"
	}
	return screen.MemoryOf(*g.FreeMB, g.TotalMB)
}

func utilText(g gpuslots.GPUStatus) string {
	if g.UtilizationPercent == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", *g.UtilizationPercent)
}

// stateCell is the state with who and how much, or why.
func stateCell(g gpuslots.GPUStatus) table.Cell {
	text, color := string(g.State), screen.Yellow
	if text == "ready" {
		color = screen.Green
	}
	if len(g.Foreign) > 0 {
		var who []string
		for _, p := range g.Foreign {
			who = append(who, foreignText(p.User, p.Command, p.PID, p.MemoryMB))
		}
		return table.Cell{Text: text + ": foreign " + strings.Join(who, ", "), Color: color}
	}
	if g.Why != "" {
		text += ": " + g.Why
	}
	return table.Cell{Text: text, Color: color}
}

func foreignText(user, command string, pid int, mb *int64) string {
	s := strings.TrimSpace(user + " " + command)
	if s == "" {
		s = fmt.Sprintf("process %d", pid)
	}
	if mb != nil {
		s += " " + screen.Memory(*mb)
	}
	return s
}
