package checkup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
)

// Verdict of one line.
type Verdict string

// The verdicts.
const (
	Works Verdict = "ok"
	Half  Verdict = "warning" // jobs run, with less
	Fails Verdict = "fails"   // no job would run
)

// Finding is one line: what was looked at, what was found, what to do.
type Finding struct {
	What    string  `json:"what"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	Do      string  `json:"do,omitempty"`
}

// Bad is a finding that needs somebody to do something.
func Bad(what string, v Verdict, found, do string) Finding {
	return Finding{What: what, Verdict: v, Found: found, Do: do}
}

var colors = map[Verdict]screen.Color{Works: screen.Green, Half: screen.Yellow, Fails: screen.Red}

// Report prints the findings; something that fails is the exit code 1.
func Report(g *cli.Globals, all []Finding) error {
	if err := write(g, all); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(f Finding) bool { return f.Verdict == Fails }) {
		return exit.Silent(exit.Failed)
	}
	return nil
}

// write shows a person every word, and under what does not work what to do.
func write(g *cli.Globals, all []Finding) error {
	if !g.Output.ForPeople() {
		return cli.Print(g, view(), all)
	}
	const verdictWidth, gaps = 7, 4
	whatWidth := 0
	for _, f := range all {
		whatWidth = max(whatWidth, screen.Width(f.What))
	}
	indent := verdictWidth + whatWidth + gaps
	term := g.Screen()
	width := 0
	if term.Width > 0 {
		width = max(term.Width-indent, 20)
	}
	for _, f := range all {
		head := term.Paint(colors[f.Verdict], screen.Pad(string(f.Verdict), verdictWidth, false)) + "  " + screen.Pad(f.What, whatWidth, false)
		lines := screen.Wrap(screen.Safe(f.Found), width)
		if f.Do != "" {
			lines = append(lines, screen.Wrap("-> "+screen.Safe(f.Do), width)...)
		}
		for _, line := range lines {
			if _, err := fmt.Fprintf(g.Out(), "%s  %s\n", head, line); err != nil {
				return err
			}
			head = strings.Repeat(" ", indent-2)
		}
	}
	return nil
}

// findingJSON is a finding as programs see it.
type findingJSON struct {
	Version int `json:"version"`
	Finding
}

func view() table.View[Finding] {
	text := func(get func(Finding) string) func(Finding) table.Cell {
		return func(f Finding) table.Cell { return table.Text(get(f)) }
	}
	return table.View[Finding]{
		Name:  func(f Finding) string { return strings.ReplaceAll(f.What, " ", "-") },
		Value: func(f Finding) any { return findingJSON{1, f} },
		Columns: []table.Column[Finding]{
			{Field: "what", Cell: text(func(f Finding) string { return f.What })},
			{Field: "verdict", Cell: text(func(f Finding) string { return string(f.Verdict) })},
			{Field: "found", Cell: text(func(f Finding) string { return f.Found })},
			{Field: "do", Cell: text(func(f Finding) string { return f.Do })},
		},
	}
}

// clockTolerance is how far apart clocks may be before the times people see are wrong. Nothing rests on it: sessions
// are counted by the broker alone.
const clockTolerance = 2 * time.Second

// Clock judges how far a clock is from the broker's; whose says which ("this machine's").
func Clock(what, whose string, apart time.Duration) Finding {
	if apart.Abs() <= clockTolerance {
		return Finding{What: what, Verdict: Works, Found: whose + " agrees with the broker's"}
	}
	return Finding{
		What: what, Verdict: Half, Found: fmt.Sprintf("%s is %s apart from the broker's", whose, screen.Span(apart.Abs())),
		Do: "let both keep time with NTP (timedatectl set-ntp true): the times people see are wrong",
	}
}
