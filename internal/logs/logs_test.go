package logs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berthq/berth/internal/logs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nasty is what a job's name may hold when it came over the wire.
const nasty = "\x1b[31mred\x1b[0m\x07\u009b2J"

func logAll(log *slog.Logger) {
	log.Info("job "+nasty, logs.KeyJob, nasty, logs.Err(errors.New(nasty)), slog.Group("g", nasty, nasty))
	log.With(logs.KeyMachine, nasty).WithGroup("sub").Warn("full", "list", []string{nasty}, "value", struct{ S string }{nasty})
	log.Debug("not shown")
}

// control is the first byte that a terminal would act upon.
func control(text string) string {
	for i, r := range text {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return fmt.Sprintf("%q at %d", text[i:min(len(text), i+10)], i)
		}
	}
	return ""
}

func TestNoEscapeCodesReachAFile(t *testing.T) {
	t.Parallel()
	for _, format := range []logs.Format{logs.Auto, logs.Text, logs.JSON, ""} {
		path := filepath.Join(t.TempDir(), "log")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		logAll(logs.New(logs.Options{Out: f, Format: format}))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if found := control(text); found != "" && format == logs.Text {
			t.Errorf("format %q: %s in\n%s", format, found, text)
		}
		if strings.Contains(text, "\x1b") {
			t.Errorf("format %q: an escape code in %q", format, text)
		}
		if n := strings.Count(text, "\n"); n != 2 {
			t.Errorf("format %q: %d lines, want 2:\n%s", format, n, text)
		}
		if format == logs.Text {
			continue
		}
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("format %q: not JSON: %s", format, line)
			}
		}
	}
}

// terminal opens a pseudo terminal and gives the side a program writes to, and the side a person reads.
func terminal(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program, person
}

func TestColoursOnATerminal(t *testing.T) {
	t.Parallel()
	for _, noColor := range []bool{false, true} {
		program, person := terminal(t)
		log := logs.New(logs.Options{Out: program, NoColor: noColor})
		log.Error("job lost "+nasty, logs.KeyJob, nasty)
		line, err := bufio.NewReader(person).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(line, "\x1b["); got == noColor {
			t.Errorf("NoColor %v: %q", noColor, line)
		}
		if strings.Contains(line, "\x1b[31mred") || strings.Contains(line, "\x07") || strings.Contains(line, "\u009b") {
			t.Errorf("what the job is called reaches the terminal as it is: %q", line)
		}
	}
}

func TestLevelsAndFormats(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]slog.Level{"debug": slog.LevelDebug, "INFO": slog.LevelInfo, "Warn": slog.LevelWarn, "error": slog.LevelError} {
		if got, err := logs.ParseLevel(word); err != nil || got != want {
			t.Errorf("%q: %v, %v", word, got, err)
		}
	}
	if _, err := logs.ParseLevel("wran"); err == nil || !strings.Contains(err.Error(), "did you mean warn?") {
		t.Errorf("wran: %v", err)
	}
	for word, want := range map[string]logs.Format{"": logs.Auto, "auto": logs.Auto, "JSON": logs.JSON, "text": logs.Text} {
		if got, err := logs.ParseFormat(word); err != nil || got != want {
			t.Errorf("%q: %v, %v", word, got, err)
		}
	}
	if _, err := logs.ParseFormat("xml"); err == nil {
		t.Error("xml is a format")
	}
}

func Example() {
	log := logs.New(logs.Options{Out: os.Stdout, Format: logs.Text, Level: slog.LevelWarn})
	log.Info("not shown at this level")
	fmt.Println(log.Enabled(context.Background(), slog.LevelWarn))
	// Output: true
}
