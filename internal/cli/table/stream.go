package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/berthq/berth/internal/cli/screen"
)

// Stream prints rows as they come, each a line at once. As a table its columns have fixed widths; -o json is the same
// as jsonl, for there is no end to close the list.
type Stream[T any] struct {
	view    View[T]
	w       io.Writer
	term    screen.Terminal
	form    Format
	columns []Column[T]
	widths  []int
	begun   bool
}

// Stream begins one.
func (v View[T]) Stream(w io.Writer, term screen.Terminal, f Format) *Stream[T] {
	s := &Stream[T]{view: v, w: w, term: term, form: f, columns: v.chosen(f == Wide)}
	blank := make([]Cell, len(s.columns))
	for j, c := range s.columns {
		blank[j].Text = strings.Repeat(" ", c.Width)
	}
	s.widths = fit(s.columns, [][]Cell{blank}, term.Width)
	if last := len(s.widths) - 1; last >= 0 && s.widths[last] > 0 && s.columns[last].Width == 0 {
		s.widths[last] += max(term.Width-lineWidth(s.widths), 0) // the rest of the line
	}
	return s
}

// Row prints one.
func (s *Stream[T]) Row(row T) error {
	first := !s.begun
	s.begun = true
	switch s.form {
	case JSON, JSONL:
		return s.view.jsonl(s.w, []T{row})
	case Name:
		return s.view.names(s.w, []T{row})
	case CSV:
		return s.csvRow(row, first)
	}
	return s.tableRow(row, first)
}

// End completes what has been printed: a list without a row says its columns in CSV, and on a terminal that it is empty.
func (s *Stream[T]) End() error {
	if s.begun {
		return nil
	}
	s.begun = true
	return s.view.Print(s.w, s.term, s.form, nil)
}

func (s *Stream[T]) csvRow(row T, first bool) error {
	out := csv.NewWriter(s.w)
	if first {
		if err := s.view.csvHead(out); err != nil {
			return err
		}
	}
	if err := out.Write(s.view.csvLine(row)); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

func (s *Stream[T]) tableRow(row T, first bool) error {
	var b strings.Builder
	if first {
		title := make([]Cell, len(s.columns))
		for j, c := range s.columns {
			title[j] = Cell{c.Title, screen.Dim}
		}
		writeLine(&b, s.term, s.columns, title, s.widths)
	}
	line := make([]Cell, len(s.columns))
	for j, c := range s.columns {
		line[j] = c.Cell(row)
		line[j].Text = screen.Safe(line[j].Text)
	}
	widths := s.widths
	if s.term.Width == 0 {
		widths = grown(widths, line)
	}
	writeLine(&b, s.term, s.columns, line, widths)
	_, err := fmt.Fprint(s.w, b.String())
	return err
}

// grown widens columns to what a line needs: in a pipe nothing is cut.
func grown(widths []int, line []Cell) []int {
	out := make([]int, len(widths))
	for j, w := range widths {
		out[j] = max(w, screen.Width(line[j].Text))
	}
	return out
}
