package submit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// dryAnswer is what one task needs, and who could give it. Machines is absent where no broker could be asked, and empty
// where no machine known now could ever take it.
type dryAnswer struct {
	Version int `json:"version"`
	estimator.Answer
	Machines []string `json:"machines,omitzero"`
}

// showDry prints what would be sent. As JSON: the answer of the estimator and the machines that could take it, one
// object, or a list where there are several. No broker is needed; without one the machines are not known.
func showDry(ctx context.Context, g *cli.Globals, jobs []prepared) error {
	machines, unknown := knownMachines(ctx, g)
	for i := range jobs {
		jobs[i].dry = dryAnswers(jobs[i].answers, machines)
	}
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
	if unknown != nil {
		g.Say("which machines could take it is not known: %v", unknown)
	}
	g.Say("nothing was sent")
	return nil
}

// knownMachines asks the broker, if there is one. Only a broker can say that the fleet is empty.
func knownMachines(ctx context.Context, g *cli.Globals) ([]queue.Machine, error) {
	q, done, err := cli.Dial(ctx, g)
	if err != nil {
		return nil, err
	}
	defer done()
	machines, err := q.Machines(ctx)
	if err == nil && machines == nil {
		machines = []queue.Machine{}
	}
	return machines, err
}

// dryAnswers adds to each answer the machines that could ever take it, as their own workers would judge.
func dryAnswers(answers []estimator.Answer, machines []queue.Machine) []dryAnswer {
	pools := poolsOf(machines)
	all := make([]dryAnswer, len(answers))
	for i, a := range answers {
		all[i].Version, all[i].Answer = 1, a
		if machines == nil {
			continue
		}
		all[i].Machines = []string{}
		for _, p := range pools {
			if p.CanEver(a.Requirements()) == nil {
				all[i].Machines = append(all[i].Machines, p.name)
			}
		}
		slices.Sort(all[i].Machines)
	}
	return all
}

func machinesText(a dryAnswer) string {
	const shown = 3
	switch n := len(a.Machines); {
	case a.Machines == nil:
		return "-"
	case n == 0:
		return "none"
	case n > shown:
		return strings.Join(a.Machines[:shown], ", ") + fmt.Sprintf(" and %d more", n-shown)
	}
	return strings.Join(a.Machines, ", ")
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
	if len(s.Steps) == 0 {
		row("command", screen.Safe(commandLine(s.Command)))
	}
	for i, step := range s.Steps {
		row("step "+s.StepName(i), screen.Safe(commandLine(step.Command)))
	}
	if s.Script != "" {
		row("script", fmt.Sprintf("%d lines, %d bytes, as they are now", strings.Count(strings.TrimSuffix(s.Script, "\n"), "\n")+1, len(s.Script)))
	}
	row("in", screen.Safe(s.Workdir))
	for _, line := range boxLines(s) {
		row(line[0], screen.Safe(line[1]))
	}
	row("project", s.Project)
	row("priority", fmt.Sprint(s.EffectivePriority()))
	if s.TimeLimit > 0 {
		row("time limit", s.TimeLimit.String())
	}
	if len(s.Secrets) > 0 {
		row("secrets", screen.Safe(strings.Join(s.Secrets, ", "))+" (by name; the machine has the values)")
	}
	for _, d := range s.DependsOn {
		row("waits until", screen.Safe(d.Text()))
	}
	if s.SameGPUAs != "" {
		row("rather", "on the GPU that "+screen.Safe(s.SameGPUAs)+" ran on last; after a minute, anywhere")
	}
	if text := whenText(s); text != "" {
		row("starts", text)
	}
	row("asks for", screen.Safe(whole(p.job)))
	if len(p.answers) == 1 {
		row("because", screen.Safe(p.answers[0].Why))
		for _, w := range p.answers[0].Warnings {
			row("warning", term.Paint(screen.Yellow, screen.Safe(w)))
		}
		if p.dry[0].Machines != nil {
			row("machines", screen.Safe(machinesText(p.dry[0])))
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
		return points(true).Print(g.Out(), term, g.Output, p.dry)
	}
	return nil
}

// points are the tasks of a matrix with what each needs, and who could take it.
func points(machines bool) table.View[dryAnswer] {
	v := table.View[dryAnswer]{Columns: []table.Column[dryAnswer]{
		{Title: "POINT", Cell: func(a dryAnswer) table.Cell { return table.Text(estimator.PointText(a.Point)) }},
		{Title: "GPUS", Right: true, Cell: func(a dryAnswer) table.Cell { return table.Text(fmt.Sprint(a.GPUs)) }},
		{Title: "MEMORY", Right: true, Cell: func(a dryAnswer) table.Cell { return table.Text(memoryText(a)) }},
		{Title: "BECAUSE", Shrink: 20, Drop: 1, Cell: func(a dryAnswer) table.Cell { return table.Text(a.Why) }},
	}}
	if machines {
		v.Columns = slices.Insert(v.Columns, 3, table.Column[dryAnswer]{Title: "MACHINES", Shrink: 12,
			Cell: func(a dryAnswer) table.Cell { return table.Text(machinesText(a)) }})
	}
	return v
}

func memoryText(a dryAnswer) string {
	if a.GPUMemoryMB == 0 {
		return "-"
	}
	return screen.Memory(a.GPUMemoryMB)
}

func showAnswers(g *cli.Globals, jobs []prepared) error {
	var all []dryAnswer
	for _, p := range jobs {
		all = append(all, p.dry...)
	}
	if g.Output == table.JSON && len(all) == 1 {
		return table.WriteJSON(g.Out(), all[0])
	}
	return cli.Print(g, dryColumns(), all)
}

// dryColumns are a dry run for programs.
func dryColumns() table.View[dryAnswer] {
	v := table.View[dryAnswer]{Name: func(a dryAnswer) string { return fmt.Sprint(a.GPUs) }}
	for _, c := range answers().Columns {
		v.Columns = append(v.Columns, table.Column[dryAnswer]{Field: c.Field, Cell: func(a dryAnswer) table.Cell { return c.Cell(a.Answer) }})
	}
	v.Columns = append(v.Columns, table.Column[dryAnswer]{Field: "machines", Cell: func(a dryAnswer) table.Cell {
		return table.Text(strings.Join(a.Machines, " "))
	}})
	return v
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
