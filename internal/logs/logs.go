package logs

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/berthq/berth/job"
)

// The keys every package uses for the same thing.
const (
	KeyMachine = "machine"
	KeyJob     = "job"
	KeyAttempt = "attempt"
	KeyLane    = "lane"
	KeyGPU     = "gpu"
	KeyErr     = "err"
)

// Format is how a log looks.
type Format string

// The formats.
const (
	Auto Format = "auto" // Text on a terminal, else JSON
	Text Format = "text"
	JSON Format = "json"
)

// Options of a logger.
type Options struct {
	Out    io.Writer
	Level  slog.Leveler // nil: info
	Format Format       // "": Auto
	// NoColor: NO_COLOR is set, --no-color was given, or the terminal is dumb. Only a terminal gets colours anyway.
	NoColor bool
}

// New makes a logger.
func New(o Options) *slog.Logger {
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	terminal := isTerminal(o.Out)
	if o.Format == JSON || o.Format != Text && !terminal {
		return slog.New(slog.NewJSONHandler(o.Out, &slog.HandlerOptions{Level: o.Level}))
	}
	return slog.New(tint.NewTextHandler(o.Out, &tint.Options{
		Level:       o.Level,
		TimeFormat:  "15:04:05.000",
		NoColor:     o.NoColor || !terminal,
		ReplaceAttr: printable,
	}))
}

// printable keeps control characters that a job or a person brought along away from the terminal, which would act on
// them: tint writes the message as it is, and colours inside a value too.
func printable(groups []string, a slog.Attr) slog.Attr {
	a.Key = clean(a.Key)
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(clean(a.Value.String()))
	case slog.KindAny:
		if _, isLevel := a.Value.Any().(slog.Level); len(groups) > 0 || !isLevel {
			a.Value = slog.StringValue(clean(fmt.Sprintf("%+v", a.Value.Any())))
		}
	}
	return a
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, s)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

var levels = []string{"debug", "info", "warn", "error"}

// ParseLevel reads debug, info, warn or error.
func ParseLevel(s string) (slog.Level, error) {
	var level slog.Level
	word := strings.ToLower(strings.TrimSpace(s))
	for _, known := range levels {
		if word == known {
			return level, level.UnmarshalText([]byte(word))
		}
	}
	hint := ""
	if near, ok := job.Nearest(s, levels); ok {
		hint = " (did you mean " + near + "?)"
	}
	return 0, fmt.Errorf("log level %q: want %s%s", s, strings.Join(levels, ", "), hint)
}

// ParseFormat reads auto, text or json.
func ParseFormat(s string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimSpace(s))); f {
	case "":
		return Auto, nil
	case Auto, Text, JSON:
		return f, nil
	}
	return "", fmt.Errorf("log format %q: want auto, text or json", s)
}

// Err is the attribute of an error.
func Err(err error) slog.Attr { return slog.Any(KeyErr, err) }
