package cli

import (
	"bytes"
	"strings"
	"testing"
)

// In a pipe a look is written when it differs from the one before.
func TestWatchInAPipe(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := watcher{out: &out}
	for _, page := range []string{"one\n", "one\n", "two\n", "one\n"} {
		if err := w.show([]byte(page)); err != nil {
			t.Fatal(err)
		}
		w.last = []byte(page)
	}
	if err := w.leave(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "one\ntwo\none\n" {
		t.Errorf("a pipe got %q", got)
	}
}

// On a terminal one look takes the place of another, no look is longer than the screen, and the last one stays behind.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := watcher{out: &out, live: true, height: 3}
	for _, page := range []string{"a\nb\nc\nd\n", "e\n"} {
		if err := w.show([]byte(page)); err != nil {
			t.Fatal(err)
		}
		w.last = []byte(page)
	}
	if err := w.leave(); err != nil {
		t.Fatal(err)
	}
	want := altScreen + home + "a" + toLineEnd + "\nb" + toLineEnd + "\n" + toPageEnd + home + "e" + toLineEnd + "\n" + toPageEnd + mainScreen + "e\n"
	if got := out.String(); got != want {
		t.Errorf("a terminal got\n%q, want\n%q", got, want)
	}
	if strings.Count(out.String(), altScreen) != 1 {
		t.Error("the screen was entered more than once")
	}
}
