package submit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
)

// showDry prints what would be sent. As JSON: the answer of the estimator alone, one object, or a list where there are
// several.
func showDry(g *cli.Globals, jobs []prepared) error {
	if !g.Output.ForPeople() {
		return showAnswers(g, jobs)
	}
	for i, p := range jobs {
		if i > 0 {
			fmt.Fprintln(g.Out())
		}
		if err := showJob(g, p); err != nil {
			return err
		}
	}
	g.Say("nothing was sent")
	return nil
}

func showJob(g *cli.Globals, p prepared) error {
	s := p.job.Spec
	term := g.Screen()
	row := func(label, text string) {
		fmt.Fprintf(g.Out(), "%s %s\n", term.Paint(screen.Dim, screen.Pad(label, 12, false)), text)
	}
	if s.Name != "" {
		row("name", screen.Safe(s.Name))
	}
	row("command", screen.Safe(commandLine(s.Command)))
	row("in", screen.Safe(s.Workdir))
	row("project", s.Project)
	row("priority", fmt.Sprint(s.EffectivePriority()))
	if s.TimeLimit > 0 {
		row("time limit", s.TimeLimit.String())
	}
	row("asks for", screen.Safe(whole(p.job)))
	if len(p.answers) == 1 {
		row("because", screen.Safe(p.answers[0].Why))
		for _, w := range p.answers[0].Warnings {
			row("warning", term.Paint(screen.Yellow, screen.Safe(w)))
		}
	}
	for i, key := range slices.Sorted(maps.Keys(s.Env)) {
		label := ""
		if i == 0 {
			label = "environment"
		}
		row(label, screen.Safe(key+"="+*s.Env[key]))
	}
	if len(p.answers) > 1 {
		fmt.Fprintln(g.Out())
		return points().Print(g.Out(), term, g.Output, p.answers)
	}
	return nil
}

// points are the tasks of a matrix with what each needs.
func points() table.View[estimator.Answer] {
	return table.View[estimator.Answer]{Columns: []table.Column[estimator.Answer]{
		{Title: "POINT", Cell: func(a estimator.Answer) table.Cell { return table.Text(pointText(a.Point)) }},
		{Title: "GPUS", Right: true, Cell: func(a estimator.Answer) table.Cell { return table.Text(fmt.Sprint(a.GPUs)) }},
		{Title: "MEMORY", Right: true, Cell: func(a estimator.Answer) table.Cell { return table.Text(memoryText(a)) }},
		{Title: "BECAUSE", Shrink: 20, Drop: 1, Cell: func(a estimator.Answer) table.Cell { return table.Text(a.Why) }},
	}}
}

func memoryText(a estimator.Answer) string {
	if a.GPUMemoryMB == 0 {
		return "-"
	}
	return screen.Memory(a.GPUMemoryMB)
}

func showAnswers(g *cli.Globals, jobs []prepared) error {
	var all []estimator.Answer
	for _, p := range jobs {
		all = append(all, p.answers...)
	}
	if g.Output == table.JSON && len(all) == 1 {
		return table.WriteJSON(g.Out(), all[0])
	}
	return cli.Print(g, answers(), all)
}

// answers are estimates for programs.
func answers() table.View[estimator.Answer] {
	return table.View[estimator.Answer]{
		Name: func(a estimator.Answer) string { return fmt.Sprint(a.GPUs) },
		Columns: []table.Column[estimator.Answer]{
			{Field: "gpus", Cell: func(a estimator.Answer) table.Cell { return table.Text(fmt.Sprint(a.GPUs)) }},
			{Field: "gpu_memory_mb", Cell: func(a estimator.Answer) table.Cell { return table.Text(fmt.Sprint(a.GPUMemoryMB)) }},
			{Field: "method", Cell: func(a estimator.Answer) table.Cell { return table.Text(a.Method) }},
			{Field: "why", Cell: func(a estimator.Answer) table.Cell { return table.Text(a.Why) }},
		},
	}
}

// commandLine shows an argv so that it could be typed again.
func commandLine(argv job.Command) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'$&|;<>()*?[]#~`\\!{}") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
