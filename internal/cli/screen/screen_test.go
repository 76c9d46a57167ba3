package screen_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli/screen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSafe(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"llama3-70b":            "llama3-70b",
		"größe 模型 🚢":            "größe 模型 🚢",
		"a\x1b[31mred\x1b[0m":   `a\x1b[31mred\x1b[0m`,
		"two\nlines\tand more":  `two\nlines\tand more`,
		"bell\a del\x7f":        `bell\x07 del\x7f`,
		"c1 \u009b31m":          `c1 \u009b31m`,
		"rtl \u202egnp.exe":     `rtl \u202egnp.exe`,
		"sep\u2028x":            `sep\u2028x`,
		"broken \xff\xfe bytes": `broken \xff\xfe bytes`,
		"<script>alert(1)":      "<script>alert(1)", // markup is harmless on a terminal
	} {
		if got := screen.Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b]0;title\a")
	f.Add("\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := screen.Safe(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Safe(%q) is not UTF-8", s)
		}
		for _, r := range got {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Fatalf("Safe(%q) kept the control character %U", s, r)
			}
		}
		if again := screen.Safe(got); again != got {
			t.Fatalf("Safe is not idempotent: %q, %q", got, again)
		}
	})
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"too long for it", 8, "too lon…"},
		{"模型模型", 5, "模型…"}, {"模型模型", 4, "模…"}, {"any", 0, "any"}, {"ab", 1, "…"},
	} {
		got := screen.Fit(c.in, c.width)
		if got != c.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
		if c.width > 0 && screen.Width(got) > c.width {
			t.Errorf("Fit(%q, %d) is %d wide", c.in, c.width, screen.Width(got))
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	got := screen.Wrap("peak 7.9 of 24 GiB: -m 10Gi would let two run on a card", 24)
	for _, line := range got {
		if screen.Width(line) > 24 {
			t.Errorf("line %q is wider than 24", line)
		}
	}
	if len(got) != 3 || strings.Join(got, " ") != "peak 7.9 of 24 GiB: -m 10Gi would let two run on a card" {
		t.Errorf("Wrap = %q", got)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{screen.Ago(now, now), "now"},
		{screen.Ago(now.Add(-12*time.Second), now), "12s ago"},
		{screen.Ago(now.Add(-185*time.Second), now), "3m05s ago"},
		{screen.Ago(now.Add(5*time.Minute), now), "in 5m"},
		{screen.Ago(time.Time{}, now), "-"},
		{screen.Span(20 * time.Millisecond), "20ms"},
		{screen.Span(800 * time.Millisecond), "0.8s"},
		{screen.Span(2*time.Hour + 10*time.Minute), "2h10m"},
		{screen.Span(99 * time.Hour), "4d3h"},
		{screen.Span(48 * time.Hour), "2d"},
		{screen.Memory(640), "640 MiB"},
		{screen.Memory(24268), "23.7 GiB"},
		{screen.Memory(24576), "24 GiB"},
		{screen.Memory(143771), "140 GiB"},
		{screen.Memory(1153434), "1.1 TiB"},
		{screen.MemoryOf(8090, 24576), "7.9 of 24 GiB"},
		{screen.MemoryOf(2, 24576), "2 MiB of 24 GiB"},
		{screen.Ago(now.Add(-3200*time.Millisecond), now), "3s ago"},
		{screen.Energy(83), "83 J"},
		{screen.Energy(8640), "2.4 Wh"},
		{screen.Energy(6.12e6), "1.7 kWh"},
		{screen.Bar(0.5, 8), "████····"},
		{screen.Bar(0.3, 5), "█▌···"},
		{screen.Bar(7, 3), "███"},
		{screen.Spark([]float64{0, 50, 100}, 100, 10), "▁▅█"},
		{screen.Spark([]float64{0, 0, 100, 100}, 100, 2), "▁█"},
		{screen.Spark([]float64{0, math.NaN(), math.NaN(), 100, math.NaN(), 100}, 100, 3), "▁██"},
		{screen.Spark([]float64{100, math.NaN(), 100}, 100, 3), "█ █"},
		{screen.Spark(nil, 100, 10), ""},
		{screen.Plural(1, "GPU"), "1 GPU"},
		{screen.Plural(0, "GPU"), "0 GPUs"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestInspectNoTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, w := range []any{&bytes.Buffer{}, file} {
		term := screen.Inspect(w, func(string) string { return "" })
		if term != (screen.Terminal{}) {
			t.Errorf("Inspect(%T) = %+v, want no terminal", w, term)
		}
		if got := term.Paint(screen.Red, "x"); got != "x" {
			t.Errorf("colour in a pipe: %q", got)
		}
	}
}

// Names of other people's jobs are shown, never obeyed.
func ExampleSafe() {
	fmt.Println(screen.Safe("train\x1b[2J\nrm -rf"))
	// Output: train\x1b[2J\nrm -rf
}
