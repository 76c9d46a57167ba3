package submit

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
)

// NewEstimate is `berth estimate`: what a job would ask for, and why. It needs no broker.
func NewEstimate(g *cli.Globals) *cobra.Command {
	var f *flags
	cmd := &cobra.Command{
		Use:   "estimate [flags] (-f SPEC | -- COMMAND [ARG...])",
		Short: "say how many GPUs and how much memory a job needs, and why",
		Example: "  berth estimate -f job.yaml\n" +
			"  berth estimate --model llama-3-70b --tp 4 -g auto\n" +
			"  berth estimate -- vllm serve meta-llama/Llama-3.1-8B -tp 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(f.files) == 0 {
				args = []string{"true"} // a model and its sizes are enough for an estimate
				if !f.given("model") && !f.given("gpus") && !f.given("tp") {
					return exit.Errorf(exit.Usage, "nothing to estimate").Hinted("%s", cmd.UseLine())
				}
				return runEstimate(g, f, args, 0)
			}
			return runEstimate(g, f, args, cmd.ArgsLenAtDash())
		},
	}
	f = &flags{set: cmd.Flags()}
	f.set.StringArrayVarP(&f.files, "file", "f", nil, "job spec `FILE`, YAML or JSON; - is standard input")
	f.bindResources()
	f.set.SortFlags = false
	f.set.SetInterspersed(false)
	return cmd
}

func runEstimate(g *cli.Globals, f *flags, args []string, dash int) error {
	jobs, err := f.prepare(g.Env(), args, dash)
	if err != nil {
		return err
	}
	for i, p := range jobs {
		jobs[i].dry = dryAnswers(p.answers, nil)
	}
	if !g.Output.ForPeople() {
		return showAnswers(g, jobs)
	}
	for i, p := range jobs {
		if i > 0 {
			fmt.Fprintln(g.Out())
		}
		if len(p.answers) > 1 {
			if err := points(false).Print(g.Out(), g.Screen(), g.Output, p.dry); err != nil {
				return err
			}
			continue
		}
		if err := showEstimate(g, p); err != nil {
			return err
		}
	}
	return nil
}

func showEstimate(g *cli.Globals, p prepared) error {
	a, term := p.answers[0], g.Screen()
	fmt.Fprintf(g.Out(), "%s\n", term.Paint(screen.Bold, screen.Safe(wishes(p.job.Requirements))))
	for _, line := range screen.Wrap(screen.Safe(a.Why), max(term.Width-2, 0)) {
		fmt.Fprintf(g.Out(), "  %s\n", line)
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(g.Out(), "  %s %s\n", term.Paint(screen.Yellow, "warning"), screen.Safe(w))
	}
	if a.Breakdown != nil {
		fmt.Fprintln(g.Out())
		if err := terms().Print(g.Out(), term, table.Table, breakdown(*a.Breakdown)); err != nil {
			return err
		}
	}
	if len(a.Fits) == 0 {
		return nil
	}
	fmt.Fprintln(g.Out())
	return fits().Print(g.Out(), term, table.Table, a.Fits)
}

// breakdown lists the figures of the memory computation with the reason beside each.
func breakdown(b estimator.Breakdown) []estimator.Term {
	why := map[string]string{}
	for _, t := range b.Terms {
		why[t.Name] = t.Why
	}
	rows := []estimator.Term{
		{Name: "weights", MB: b.WeightsMB}, {Name: "kv_cache", MB: b.KVCacheMB}, {Name: "activations", MB: b.ActivationsMB},
		{Name: "gradients", MB: b.GradientsMB}, {Name: "optimizer", MB: b.OptimizerMB}, {Name: "runtime", MB: b.RuntimeMB},
		{Name: "total", MB: b.TotalMB},
	}
	shown := rows[:0]
	for _, r := range rows {
		if r.MB == 0 && (r.Name == "gradients" || r.Name == "optimizer") {
			continue
		}
		r.Why = why[r.Name]
		shown = append(shown, r)
	}
	return shown
}

func terms() table.View[estimator.Term] {
	return table.View[estimator.Term]{Columns: []table.Column[estimator.Term]{
		{Title: "PER GPU", Cell: func(t estimator.Term) table.Cell {
			return table.Text(strings.ReplaceAll(t.Name, "_", " "))
		}},
		{Title: "MEMORY", Right: true, Cell: func(t estimator.Term) table.Cell { return table.Text(screen.Memory(t.MB)) }},
		{Title: "BECAUSE", Shrink: 20, Cell: func(t estimator.Term) table.Cell { return table.Text(t.Why) }},
	}}
}

func fits() table.View[estimator.Fit] {
	return table.View[estimator.Fit]{Columns: []table.Column[estimator.Fit]{
		{Title: "CARD", Cell: func(f estimator.Fit) table.Cell { return table.Text(f.Card) }},
		{Title: "FITS", Cell: func(f estimator.Fit) table.Cell {
			if f.Fits {
				return table.Cell{Text: "yes", Color: screen.Green}
			}
			return table.Cell{Text: "no", Color: screen.Red}
		}},
		{Title: "GPUS NEEDED", Right: true, Cell: func(f estimator.Fit) table.Cell {
			if f.GPUsNeeded == 0 {
				return table.Text("-")
			}
			return table.Text(fmt.Sprint(f.GPUsNeeded))
		}},
	}}
}
