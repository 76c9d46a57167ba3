package table

import (
	"fmt"
	"strings"
)

// Format is a form of output, the value of -o.
type Format string

// The forms.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"  // one document
	JSONL Format = "jsonl" // one object a line
	CSV   Format = "csv"
	Name  Format = "name" // one id a line
)

// Formats lists them in the order of help.
var Formats = []Format{Table, Wide, JSON, JSONL, CSV, Name}

// Set and the others make a Format a flag.
func (f *Format) Set(s string) error {
	for _, known := range Formats {
		if s == string(known) {
			*f = known
			return nil
		}
	}
	return fmt.Errorf("the forms are %s", list())
}

func (f *Format) String() string { return string(*f) }

// Type is the word in help.
func (f *Format) Type() string { return "form" }

// ForPeople reports whether a person reads it.
func (f Format) ForPeople() bool { return f == Table || f == Wide || f == "" }

func list() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}
