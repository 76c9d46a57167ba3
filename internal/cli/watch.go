package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// watchPeriod is how often a watched list is looked at again.
const watchPeriod = time.Second

// Watch shows what draw writes again and again until the caller interrupts it: on a terminal in place, leaving the last
// look behind, in a pipe each time that it has changed. An error of the first look ends it; a later one is shown, and
// the next look may do better.
func Watch(ctx context.Context, g *Globals, draw func(ctx context.Context, g *Globals) error) (err error) {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	w := watcher{out: g.Out(), height: g.Screen().Height, live: g.Screen().TTY && !g.Screen().Dumb && g.Output.ForPeople()}
	defer func() { err = errors.Join(err, w.leave()) }()
	for {
		var page bytes.Buffer
		err := draw(ctx, g.into(&page))
		switch {
		case ctx.Err() != nil:
			return nil // the interruption is how one leaves
		case err != nil && w.last == nil:
			return err
		case err != nil:
			err = w.show(append([]byte(err.Error()+"\n\n"), w.last...))
		default:
			err = w.show(page.Bytes())
			w.last = append([]byte{}, page.Bytes()...) // never nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// watcher is what a person or a pipe has been shown so far.
type watcher struct {
	out     io.Writer
	live    bool // a terminal, where one look replaces another
	height  int
	entered bool
	last    []byte // nil: nothing yet
}

const (
	altScreen  = "\x1b[?1049h\x1b[?25l" // without a cursor
	mainScreen = "\x1b[?25h\x1b[?1049l"
	home       = "\x1b[H"
	toLineEnd  = "\x1b[K"
	toPageEnd  = "\x1b[J"
)

// show writes one look: in place of the one before on a terminal, without a flicker.
func (w *watcher) show(page []byte) error {
	if !w.live {
		if w.last != nil && bytes.Equal(page, w.last) {
			return nil
		}
		_, err := w.out.Write(page)
		return err
	}
	var b bytes.Buffer
	if !w.entered {
		w.entered = true
		b.WriteString(altScreen)
	}
	b.WriteString(home)
	lines := bytes.SplitAfter(page, []byte("\n"))
	if w.height > 1 && len(lines) >= w.height {
		lines = lines[:w.height-1]
	}
	for _, line := range lines {
		b.Write(bytes.ReplaceAll(line, []byte("\n"), []byte(toLineEnd+"\n")))
	}
	b.WriteString(toPageEnd)
	_, err := w.out.Write(b.Bytes())
	return err
}

// leave gives the terminal back, with the last look on it.
func (w *watcher) leave() error {
	if !w.entered {
		return nil
	}
	_, err := w.out.Write(append([]byte(mainScreen), w.last...))
	return err
}

// into is g with another place for data. What is known of the terminal stays.
func (g *Globals) into(w io.Writer) *Globals {
	other := *g
	term := g.Screen()
	other.env.Stdout, other.screen = w, &term
	return &other
}
