package job

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is wrapped by everything ParseSpecs and Validate refuse.
var ErrInvalid = errors.New("invalid job spec")

// Problem is one thing wrong with a spec.
type Problem struct {
	File         string // "" when the spec came from flags
	Line, Column int    // 1 is the first; 0 when unknown
	Path         string // "resources.gpus"; "" for the spec as a whole
	Message      string
}

// Error is "file:line:column: path: message", as far as known.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		b.WriteByte(':')
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Unwrap makes errors.Is(p, ErrInvalid) hold.
func (p Problem) Unwrap() error { return ErrInvalid }

// maxProblems bounds a report: after so many, the first ones are the cause of the rest.
const maxProblems = 20

// problems collects what is wrong; its zero value is ready.
type problems []Problem

func (ps *problems) add(path, format string, args ...any) {
	*ps = append(*ps, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// err is all problems as one error, a line each, or nil.
func (ps problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	shown := ps[:min(len(ps), maxProblems)]
	errs := make([]error, len(shown), len(shown)+1)
	for i, p := range shown {
		errs[i] = p
	}
	if more := len(ps) - len(shown); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more: %w", more, ErrInvalid))
	}
	return errors.Join(errs...)
}

// Problems lists what an error of ParseSpecs or Validate holds.
func Problems(err error) []Problem {
	if err == nil {
		return nil
	}
	if p, ok := err.(Problem); ok { //nolint:errorlint // the tree is walked by hand below
		return []Problem{p}
	}
	var found []Problem
	switch e := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			found = append(found, Problems(sub)...)
		}
	case interface{ Unwrap() error }:
		found = Problems(e.Unwrap())
	}
	return found
}
