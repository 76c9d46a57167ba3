package screen_test

import (
	"bytes"
	"testing"

	"github.com/berthq/berth/internal/cli/screen"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		term screen.Terminal
		want string
	}{
		"terminal": {screen.Terminal{TTY: true, Width: 9}, "\r1 of 3\x1b[K" + "\r\x1b[Kout\n\r1 of 3\x1b[K" + "\r2 of 3 …\x1b[K" + "\r\x1b[K"},
		"pipe":     {screen.Terminal{}, "1 of 3\nout\n2 of 3 and a long word\n"},
		"dumb":     {screen.Terminal{TTY: true, Dumb: true, Width: 9}, "1 of 3\nout\n2 of 3 and a long word\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			l := screen.NewLine(&out, c.term)
			l.Show("1 of 3")
			l.Show("1 of 3")
			if err := l.Over(func() (bool, error) { _, err := out.WriteString("out\n"); return true, err }); err != nil {
				t.Fatal(err)
			}
			l.Show("2 of 3 and a long word")
			l.Close()
			l.Close()
			if got := out.String(); got != c.want {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// Where a job has begun a line the foot waits until that line has ended: nothing of it is written over.
func TestLineUnderAnOpenLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := screen.NewLine(&out, screen.Terminal{TTY: true, Width: 40})
	write := func(text string, whole bool) {
		if err := l.Over(func() (bool, error) { _, err := out.WriteString(text); return whole, err }); err != nil {
			t.Fatal(err)
		}
	}
	l.Show("1 of 3")
	write("ep", false)
	l.Show("2 of 3")
	write("och\n", true)
	l.Close()
	if got, want := out.String(), "\r1 of 3\x1b[K"+"\r\x1b[Kepoch\n"+"\r2 of 3\x1b[K"+"\r\x1b[K"; got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
