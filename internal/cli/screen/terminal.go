package screen

import (
	"os"
	"strconv"

	"golang.org/x/term"
)

// Terminal is what is known about one output stream.
type Terminal struct {
	TTY    bool // a person looks at it
	Width  int  // columns; 0 = unlimited, as in a pipe
	Height int  // lines; 0 = unknown
	Color  bool
	Dumb   bool // no cursor movement
}

// Inspect looks at a stream. NO_COLOR (no-color.org) and TERM=dumb are respected.
func Inspect(w any, getenv func(string) string) Terminal {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Terminal{}
	}
	dumb := getenv("TERM") == "dumb"
	t := Terminal{TTY: true, Width: 80, Color: getenv("NO_COLOR") == "" && !dumb, Dumb: dumb}
	if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		t.Width, t.Height = w, h
	} else if w, err := strconv.Atoi(getenv("COLUMNS")); err == nil && w > 0 {
		t.Width = w
	}
	return t
}

// Color is one of the few colours Berth uses, each with one meaning.
type Color string

// The colours.
const (
	Plain  Color = ""
	Bold   Color = "1"
	Dim    Color = "2"  // past, unimportant
	Red    Color = "31" // failed, unusable
	Green  Color = "32" // went well, free
	Yellow Color = "33" // look here
	Cyan   Color = "36" // at work
)

// Paint colours s where the terminal shows colours.
func (t Terminal) Paint(c Color, s string) string {
	if !t.Color || c == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}
