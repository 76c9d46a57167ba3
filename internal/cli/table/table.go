package table

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/berthq/berth/internal/cli/screen"
)

// Cell is what a column shows of one row.
type Cell struct {
	Text  string
	Color screen.Color
}

// Column is one property of T.
type Column[T any] struct {
	Title  string         // of the table, in capitals
	Field  string         // name in CSV: the JSON field's; empty leaves the column out there
	Cell   func(T) Cell   // for people; its text need not be safe
	Raw    func(T) string // for CSV; nil takes the cell's text
	Wide   bool           // only with -o wide, and in CSV
	Right  bool           // figures
	Shrink int            // may be cut down to this many columns; 0 never
	Width  int            // in a stream, where later rows are not known; 0 = as wide as the title
	Drop   int            // leaves the table when it does not fit, the highest first; 0 stays
}

// View says how a list of T is printed.
type View[T any] struct {
	Columns []Column[T]
	Name    func(T) string // for -o name
	Value   func(T) any    // for JSON; nil takes T itself
	Empty   string         // said on a terminal instead of nothing
}

// Text makes a Cell without colour.
func Text(s string) Cell { return Cell{Text: s} }

// Print writes rows in the form asked for.
func (v View[T]) Print(w io.Writer, term screen.Terminal, f Format, rows []T) error {
	switch f {
	case JSON:
		return v.json(w, rows)
	case JSONL:
		return v.jsonl(w, rows)
	case CSV:
		return v.csv(w, rows)
	case Name:
		return v.names(w, rows)
	}
	return v.table(w, term, f == Wide, rows)
}

func (v View[T]) value(row T) any {
	if v.Value == nil {
		return row
	}
	return v.Value(row)
}

func (v View[T]) json(w io.Writer, rows []T) error {
	values := make([]any, len(rows))
	for i, r := range rows {
		values[i] = v.value(r)
	}
	return WriteJSON(w, values)
}

// WriteJSON writes one indented document for people and programs.
func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

func (v View[T]) jsonl(w io.Writer, rows []T) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, r := range rows {
		if err := enc.Encode(v.value(r)); err != nil {
			return err
		}
	}
	return nil
}

func (v View[T]) names(w io.Writer, rows []T) error {
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, screen.Safe(v.Name(r))); err != nil {
			return err
		}
	}
	return nil
}

func (v View[T]) csv(w io.Writer, rows []T) error {
	out := csv.NewWriter(w)
	if err := v.csvHead(out); err != nil {
		return err
	}
	for _, r := range rows {
		if err := out.Write(v.csvLine(r)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (v View[T]) csvHead(out *csv.Writer) error {
	var head []string
	for _, c := range v.Columns {
		if c.Field != "" {
			head = append(head, c.Field)
		}
	}
	return out.Write(head)
}

func (v View[T]) csvLine(row T) []string {
	var line []string
	for _, c := range v.Columns {
		switch {
		case c.Field == "":
		case c.Raw != nil:
			line = append(line, c.Raw(row))
		default:
			line = append(line, c.Cell(row).Text)
		}
	}
	return line
}

// table writes aligned columns without frames: titles, then rows.
func (v View[T]) table(w io.Writer, term screen.Terminal, wide bool, rows []T) error {
	if len(rows) == 0 {
		if term.TTY && v.Empty != "" {
			_, err := fmt.Fprintln(w, v.Empty)
			return err
		}
		return nil
	}
	columns := v.chosen(wide)
	cells := make([][]Cell, len(rows))
	for i, r := range rows {
		cells[i] = make([]Cell, len(columns))
		for j, c := range columns {
			cell := c.Cell(r)
			cell.Text = screen.Safe(cell.Text)
			cells[i][j] = cell
		}
	}
	widths := fit(columns, cells, term.Width)
	var b strings.Builder
	title := make([]Cell, len(columns))
	for j, c := range columns {
		title[j] = Cell{c.Title, screen.Dim}
	}
	writeLine(&b, term, columns, title, widths)
	for _, line := range cells {
		writeLine(&b, term, columns, line, widths)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (v View[T]) chosen(wide bool) []Column[T] {
	var columns []Column[T]
	for _, c := range v.Columns {
		if c.Title != "" && (wide || !c.Wide) {
			columns = append(columns, c)
		}
	}
	return columns
}

const gap = 2

func writeLine[T any](b *strings.Builder, term screen.Terminal, columns []Column[T], line []Cell, widths []int) {
	var out []string
	last := len(columns) - 1
	for last > 0 && widths[last] == 0 {
		last--
	}
	for j, c := range columns {
		if widths[j] == 0 {
			continue
		}
		text := screen.Fit(line[j].Text, widths[j])
		if j < last || c.Right {
			padded := screen.Pad(text, widths[j], c.Right)
			text = strings.Replace(padded, text, term.Paint(line[j].Color, text), 1)
		} else {
			text = term.Paint(line[j].Color, text)
		}
		out = append(out, text)
	}
	b.WriteString(strings.TrimRight(strings.Join(out, strings.Repeat(" ", gap)), " "))
	b.WriteByte('\n')
}
