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
	l.draw()
}

// Over writes data above the line, which stays at the foot. Data that does not end a line is completed by the next.
func (l *Line) Over(write func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.live() || l.shown == "" {
		return write()
	}
	l.write("\r" + eraseLine)
	err := write()
	l.draw()
	return err
}

// Close takes the line away; a terminal keeps what was written above it.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live() && l.shown != "" {
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
