package cli_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/internal/cli/screen"
)

var painted = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestLooks: on a terminal every list has colours and fits the width, names of two columns a letter among them; --no-color
// and NO_COLOR take the colours away, a pipe takes away everything of a terminal.
func TestLooks(t *testing.T) {
	t.Parallel()
	s := newStation(t, "sim:3x24Gi")
	s.held("-J", strings.Repeat("訓練-größer-", 12))
	s.must("submit", "-J", "first", "-g", "1", "--wait", "--", "sh", "-c", "exit 0")
	s.must("submit", "-q", "-J", "never", "--force", "-g", "99", "--", "true")
	s.must("lease", "get", "-g", "1")
	s.must("project", "set", "vision", "--max-gpus", "2")
	s.must("gpus", "quarantine", stationMachine+":2", "--reason", strings.Repeat("der Lüfter ist laut ", 10))
	lists := [][]string{{"status"}, {"gpus"}, {"machines"}, {"results"}, {"lease", "ls"}, {"lease", "ls", "--info"}, {"lease", "log"}, {"project", "ls"},
		{"events"}, {"doctor"}, {"report", "--days", "1"}, {"explain", "never"}, {"show", "never"}, {"show", "first"}}
	for _, typed := range lists {
		_, pipe, _ := s.berth(typed...)
		if strings.Contains(pipe, "\x1b") {
			t.Errorf("berth %s in a pipe: %q", typed, pipe)
		}
		for _, width := range []uint16{80, 120} {
			_, shown := s.onScreen(width, typed...)
			if !painted.MatchString(shown) {
				t.Errorf("berth %s has no colour on a terminal:\n%s", typed, shown)
			}
			for line := range strings.Lines(painted.ReplaceAllString(shown, "")) {
				line = strings.TrimSuffix(line, "\n")
				if w := screen.Width(line); w > int(width) && !unbroken(typed) {
					t.Errorf("berth %s on %d columns has a line of %d: %q", typed, width, w, line)
				}
				if !utf8.ValidString(line) {
					t.Errorf("berth %s on %d columns breaks a letter: %q", typed, width, line)
				}
			}
		}
		if _, shown := s.onScreen(80, append(typed, "--no-color")...); strings.Contains(shown, "\x1b") {
			t.Errorf("berth %s --no-color: %q", typed, shown)
		}
	}
	s.environ = append(s.environ, "NO_COLOR=1")
	for _, typed := range lists {
		if _, shown := s.onScreen(80, typed...); strings.Contains(shown, "\x1b") {
			t.Errorf("NO_COLOR=1 berth %s: %q", typed, shown)
		}
	}
}

// unbroken are the verbs that show sentences and reports, which the terminal itself may wrap: a path or a UUID that somebody
// copies stays whole.
func unbroken(typed []string) bool { return typed[0] == "explain" || typed[0] == "show" }

// TestEveryHelpHasExamples looks at the help of each verb as it is printed.
func TestEveryHelpHasExamples(t *testing.T) {
	t.Parallel()
	s := &station{t: t, dir: t.TempDir()}
	for path := range verbs(operator.Root(s.env(nil, nil, nil))) {
		help := s.must(append(strings.Fields(path), "--help")...)
		_, examples, found := strings.Cut(help, "Examples:\n")
		program := strings.Fields(path)[0]
		if !found || !strings.Contains(strings.SplitN(examples, "\n\n", 2)[0], program) {
			t.Errorf("berth %s --help shows no example:\n%s", path, help)
		}
	}
}
