package table_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ship struct {
	Name string `json:"name"`
	Tons int    `json:"tons"`
	Note string `json:"note,omitempty"`
}

var ships = []ship{
	{"Erika", 19666, "single hull"},
	{"Ever\x1b[31mGiven", 220940, "a note that is rather long, longer than most screens would like it to be"},
}

func view() table.View[ship] {
	return table.View[ship]{
		Columns: []table.Column[ship]{
			{Title: "NAME", Field: "name", Cell: func(s ship) table.Cell { return table.Cell{Text: s.Name, Color: screen.Green} }},
			{Title: "TONS", Field: "tons", Right: true, Drop: 1,
				Cell: func(s ship) table.Cell { return table.Text(strconv.Itoa(s.Tons)) }},
			{Title: "NOTE", Field: "note", Shrink: 8, Drop: 2, Cell: func(s ship) table.Cell { return table.Text(s.Note) }},
			{Title: "FIRST", Field: "first", Wide: true, Cell: func(s ship) table.Cell { return table.Text(s.Name[:1]) }},
		},
		Name:  func(s ship) string { return s.Name },
		Empty: "no ships",
	}
}

func printed(t *testing.T, term screen.Terminal, f table.Format, rows []ship) string {
	t.Helper()
	var b bytes.Buffer
	if err := view().Print(&b, term, f, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		form table.Format
		want string
	}{
		{table.Table, "NAME                 TONS  NOTE\n" +
			"Erika               19666  single hull\n" +
			"Ever\\x1b[31mGiven  220940  a note that is rather long, longer than most screens would like it to be\n"},
		{table.Name, "Erika\nEver\\x1b[31mGiven\n"},
		{table.CSV, "name,tons,note,first\nErika,19666,single hull,E\n" +
			"Ever\x1b[31mGiven,220940,\"a note that is rather long, longer than most screens would like it to be\",E\n"},
		{table.JSONL, `{"name":"Erika","tons":19666,"note":"single hull"}` + "\n" +
			`{"name":"Ever\u001b[31mGiven","tons":220940,"note":"a note that is rather long, longer than most screens would like it to be"}` + "\n"},
	} {
		got := printed(t, screen.Terminal{}, c.form, ships)
		if got != c.want {
			t.Errorf("-o %s:\n%s\nwant:\n%s", c.form, got, c.want)
		}
	}
	if got := printed(t, screen.Terminal{}, table.JSON, nil); got != "[]\n" {
		t.Errorf("an empty list as JSON is %q, want []", got)
	}
	if got := printed(t, screen.Terminal{}, table.Wide, ships); !strings.Contains(got, "FIRST") {
		t.Errorf("-o wide has no wide column:\n%s", got)
	}
}

// Every line fits the terminal: first the long column shrinks, then the least important leaves, and the name stays.
func TestFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 60, 40, 30, 27} {
		got := printed(t, screen.Terminal{TTY: true, Width: width, Color: true}, table.Table, ships)
		plain := strings.NewReplacer("\x1b[2m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(got)
		for line := range strings.Lines(plain) {
			if w := screen.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("width %d: a line takes %d columns: %q", width, w, line)
			}
		}
		if !strings.Contains(plain, `Ever\x1b[31mGiven`) {
			t.Errorf("width %d: the name was cut:\n%s", width, plain)
		}
		if hasNote := strings.Contains(plain, "NOTE"); hasNote != (width >= 36) {
			t.Errorf("width %d: note column shown: %v\n%s", width, hasNote, plain)
		}
		if !strings.Contains(got, "\x1b[32mErika\x1b[0m") {
			t.Errorf("width %d: the name has no colour: %q", width, got)
		}
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	if got := printed(t, screen.Terminal{TTY: true, Width: 80}, table.Table, nil); got != "no ships\n" {
		t.Errorf("on a terminal: %q", got)
	}
	if got := printed(t, screen.Terminal{}, table.Table, nil); got != "" {
		t.Errorf("in a pipe: %q", got)
	}
}

func TestFormatFlag(t *testing.T) {
	t.Parallel()
	var f table.Format
	if err := f.Set("jsonl"); err != nil || f != table.JSONL || f.ForPeople() {
		t.Errorf("Set(jsonl) = %q, %v", f, err)
	}
	if err := f.Set("yaml"); err == nil || !strings.Contains(err.Error(), "table, wide, json, jsonl, csv, name") {
		t.Errorf("Set(yaml) = %v", err)
	}
}

// A list is described once and printed in any form.
func ExampleView_Print() {
	v := table.View[ship]{
		Columns: []table.Column[ship]{
			{Title: "NAME", Field: "name", Cell: func(s ship) table.Cell { return table.Text(s.Name) }},
			{Title: "TONS", Field: "tons", Right: true, Cell: func(s ship) table.Cell { return table.Text(strconv.Itoa(s.Tons)) }},
		},
		Name: func(s ship) string { return s.Name },
	}
	rows := []ship{{Name: "Erika", Tons: 19666}, {Name: "Ever Given", Tons: 220940}}
	_ = v.Print(os.Stdout, screen.Terminal{}, table.Table, rows)
	_ = v.Print(os.Stdout, screen.Terminal{}, table.CSV, rows)
	// Output:
	// NAME          TONS
	// Erika        19666
	// Ever Given  220940
	// name,tons
	// Erika,19666
	// Ever Given,220940
}
