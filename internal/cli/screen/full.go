package screen

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Full is a whole terminal: one page in place of another, keys as they are pressed. Leave gives back what was there.
type Full struct {
	in, out *os.File
	before  *term.State
	env     func(string) string
}

// ErrNoTerminal says that nobody could see a page or press a key.
var ErrNoTerminal = errors.New("no terminal")

const (
	enterFull = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another page, no cursor, and no line goes on in the next
	leaveFull = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	fullHome  = "\x1b[H"
	pageEnd   = "\x1b[J"
)

// OpenFull takes the terminal that both streams are.
func OpenFull(in io.Reader, out io.Writer, getenv func(string) string) (*Full, error) {
	keys, ok := in.(*os.File)
	page, also := out.(*os.File)
	if !ok || !also || !term.IsTerminal(int(keys.Fd())) || !term.IsTerminal(int(page.Fd())) || getenv("TERM") == "dumb" {
		return nil, ErrNoTerminal
	}
	before, err := term.MakeRaw(int(keys.Fd()))
	if err != nil {
		return nil, fmt.Errorf("take the terminal: %w", err)
	}
	f := &Full{in: keys, out: page, before: before, env: getenv}
	if _, err := io.WriteString(page, enterFull); err != nil {
		return nil, errors.Join(err, term.Restore(int(keys.Fd()), before))
	}
	return f, nil
}

// Size is what is known of the terminal now: it may have changed.
func (f *Full) Size() Terminal { return Inspect(f.out, f.env) }

// Draw shows a page: lines that are painted already, none wider than the terminal. What is below its foot is left out.
func (f *Full) Draw(lines []string) error {
	if h := f.Size().Height; h > 0 && len(lines) > h {
		lines = lines[:h]
	}
	_, err := io.WriteString(f.out, fullHome+strings.Join(lines, eraseLine+"\r\n")+eraseLine+pageEnd)
	return err
}

// Leave gives the terminal back as it was.
func (f *Full) Leave() error {
	_, err := io.WriteString(f.out, leaveFull)
	return errors.Join(err, term.Restore(int(f.in.Fd()), f.before))
}
