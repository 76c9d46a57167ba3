package operator

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

func newExplain(g *cli.Globals) *cobra.Command {
	return watchable(&cobra.Command{
		Use:   "explain ID",
		Short: "say why a job waits, machine by machine, and what would start it sooner",
		Long: "Say why a job waits: one word, a sentence with numbers, what each machine and GPU says to it, who is in front, when it\n" +
			"may start and on what that estimate rests, and what would let it start sooner.",
		Example: "  berth explain 1842\n  berth explain @last -o json | jq .reason",
		Args:    cli.Takes(1, 1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(g, cmd, func(ctx context.Context, g *cli.Globals, q *queue.Queue) error {
				found, err := refs(ctx, g, q, args)
				if err != nil {
					return err
				}
				facts, err := explain.Gather(ctx, q, found[0], g.Env().Now())
				if err != nil {
					return cli.Broker(err)
				}
				e := explain.Why(facts)
				if g.Output == table.JSON {
					return table.WriteJSON(g.Out(), e)
				}
				if !g.Output.ForPeople() {
					return cli.Print(g, whyView, []explain.Explanation{e})
				}
				tellWhy(g, e, facts)
				return nil
			})
		},
	})
}

// whyView is an explanation for programs that want one line.
var whyView = table.View[explain.Explanation]{
	Name: func(e explain.Explanation) string { return e.Job },
	Columns: []table.Column[explain.Explanation]{
		{Field: "job", Cell: func(e explain.Explanation) table.Cell { return table.Text(e.Job) }},
		{Field: "state", Cell: func(e explain.Explanation) table.Cell { return table.Text(string(e.State)) }},
		{Field: "reason", Cell: func(e explain.Explanation) table.Cell { return table.Text(e.Reason) }},
		{Field: "text", Cell: func(e explain.Explanation) table.Cell { return table.Text(e.Text) }},
		{Field: "position", Cell: func(e explain.Explanation) table.Cell { return table.Text(positionText(e)) }},
		{Field: "may_start_at", Cell: func(e explain.Explanation) table.Cell { return table.Text(mayStart(e)) }},
	},
}

func positionText(e explain.Explanation) string {
	if e.Position == 0 {
		return "" // it is not on a lane
	}
	return strconv.Itoa(e.Position)
}

func mayStart(e explain.Explanation) string {
	if e.Estimate == nil {
		return ""
	}
	return stamp(&e.Estimate.StartAt)
}

// tellWhy writes an explanation for people.
func tellWhy(g *cli.Globals, e explain.Explanation, f explain.Facts) {
	term, w := g.Screen(), g.Out()
	if e.Reason == "" {
		fmt.Fprintf(w, "job %s: %s\n", e.Job, screen.Safe(e.Text))
		return
	}
	fmt.Fprintf(w, "%s  %s\n", term.Paint(screen.Bold, e.Reason), screen.Safe(e.Text))
	if e.Position > 0 {
		fmt.Fprintf(w, "%s number %d of its lane (%s)\n", label(term, "position"), e.Position, screen.Safe(needsText(f.Job.Needs)))
	}
	if len(e.InFront) > 0 {
		fmt.Fprintf(w, "%s job %s\n", label(term, "in front"), screen.Safe(firstFew(e.InFront)))
	}
	if e.Estimate != nil {
		fmt.Fprintf(w, "%s %s, by this: %s\n", label(term, "may start"), startText(e.Estimate, f), screen.Safe(e.Estimate.Basis))
	} else if f.Job.Needs.GPUs > 0 && len(f.Machines) > 0 {
		fmt.Fprintf(w, "%s not known: what is in its way does not say when it ends, and no runs of its project do\n", label(term, "may start"))
	}
	for _, tip := range e.Sooner {
		fmt.Fprintf(w, "%s %s\n", label(term, "sooner"), screen.Safe(tip))
	}
	for _, m := range e.Machines {
		machineWhy(w, term, m)
	}
}

func label(term screen.Terminal, s string) string {
	return term.Paint(screen.Dim, screen.Pad(s, labelWidth, false))
}

func startText(e *explain.Estimate, f explain.Facts) string {
	if !e.StartAt.After(f.Now) {
		return "now"
	}
	return "in " + screen.Span(e.StartAt.Sub(f.Now)) + " (" + e.StartAt.Local().Format("2006-01-02 15:04") + ")"
}

// firstFew lists jobs; the end of a long list is a number.
func firstFew(jobs []string) string {
	const shown = 10
	if len(jobs) <= shown {
		return strings.Join(jobs, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(jobs[:shown], ", "), len(jobs)-shown)
}

func machineWhy(w io.Writer, term screen.Terminal, m explain.MachineIs) {
	word := m.Reason
	if word == "" {
		word = "room"
	}
	fmt.Fprintf(w, "\n%s  %s: %s\n", term.Paint(screen.Bold, screen.Safe(m.Name)), word, screen.Safe(m.Text))
	for _, gpu := range m.GPUs {
		fmt.Fprintf(w, "  GPU %d  %s  %s: %s\n", gpu.Index, screen.Safe(gpu.Name), screen.Safe(gpu.State), screen.Safe(gpu.Text))
	}
}
