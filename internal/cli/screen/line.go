package screen

import (
	"io"
	"sync"
)

// Line is one line at the foot of a terminal that says how far something is. What else is written goes above it:
// through Over. Without a terminal each new text is a plain line of its own. It may be used by several goroutines.
type Line struct {
	mu    sync.Mutex
	w     io.Writer
	term  Terminal
	shown string
	open  bool // what was written over it has not ended its line: the foot is taken
}

// NewLine makes the line; nothing is written yet.
func NewLine(w io.Writer, term Terminal) *Line { return &Line{w: w, term: term} }

func (l *Line) live() bool { return l.term.TTY && !l.term.Dumb }

// Show replaces what the line says. The same text again writes nothing.
func (l *Line) Show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text = Safe(text)
	if text == l.shown {
		return
	}
	l.shown = text
	if !l.live() {
		if text != "" {
			l.write(text + "\n")
		}
		return
	}
	if !l.open {
		l.draw()
	}
}

// Over writes data above the line, which stays at the foot. Data that does not end its line leaves no room for this one:
// it comes back when that line has ended. write says whether it has.
func (l *Line) Over(write func() (whole bool, err error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	drawn := l.drawn()
	if drawn {
		l.write("\r" + eraseLine)
	}
	whole, err := write()
	l.open = !whole
	if l.drawn() {
		l.draw()
	}
	return err
}

// drawn says whether the line is on a terminal now.
func (l *Line) drawn() bool { return l.live() && l.shown != "" && !l.open }

// Close takes the line away; a terminal keeps what was written above it.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drawn() {
		l.write("\r" + eraseLine)
	}
	l.shown = ""
}

const eraseLine = "\x1b[K"

func (l *Line) draw() {
	text := l.shown
	if l.term.Width > 1 {
		text = Fit(text, l.term.Width-1) // the last column would wrap
	}
	l.write("\r" + l.term.Paint(Dim, text) + eraseLine)
}

// write may fail when the terminal is gone; there is nobody left to tell.
func (l *Line) write(s string) { _, _ = io.WriteString(l.w, s) }
