package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes text of others (a job's name, a label, a reason) fit to be shown: control characters, terminal escapes,
// invisible direction changes and broken UTF-8 become visible escapes on one line.
func Safe(s string) string {
	if !unsafe(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case shown(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func unsafe(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !shown(r) })
}

// shown is false for control (Cc), format (Cf: direction overrides, zero-width joiners) and line separators.
func shown(r rune) bool {
	return r == ' ' || unicode.IsPrint(r) || r == '\u3000'
}

// Width is how many columns s takes on a terminal.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, wide):
		return 2
	}
	return 1
}

// wide lists the East Asian wide blocks and the pictures: near enough for columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1100, 0x115F, 1}, {0x2E80, 0xA4CF, 1}, {0xAC00, 0xD7A3, 1}, {0xF900, 0xFAFF, 1},
		{0xFE30, 0xFE6F, 1}, {0xFF00, 0xFF60, 1}, {0xFFE0, 0xFFE6, 1}},
	R32: []unicode.Range32{{0x1F300, 0x1F64F, 1}, {0x1F680, 0x1F6FF, 1}, {0x1F900, 0x1F9FF, 1}, {0x20000, 0x3FFFD, 1}},
}

// Fit cuts s to width columns, with an ellipsis where something is missing. Width 0 or less cuts nothing.
func Fit(s string, width int) string {
	if width <= 0 || Width(s) <= width {
		return s
	}
	n, cut := 0, 0
	for i, r := range s {
		w := runeWidth(r)
		if n+w > width-1 {
			break
		}
		n, cut = n+w, i+utf8.RuneLen(r)
	}
	return s[:cut] + "…"
}

// Pad fills s with spaces up to width columns, on the left when right-aligned.
func Pad(s string, width int, right bool) string {
	gap := width - Width(s)
	switch {
	case gap <= 0:
		return s
	case right:
		return strings.Repeat(" ", gap) + s
	}
	return s + strings.Repeat(" ", gap)
}

// Wrap breaks a sentence into lines of at most width columns, between words.
func Wrap(s string, width int) []string {
	if width <= 0 {
		return []string{s}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// Plural counts things: "1 GPU", "2 GPUs".
func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
