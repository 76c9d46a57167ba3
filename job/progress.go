package job

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ProgressMark begins a line of output that says how far the job is.
const ProgressMark = "::progress "

// maxProgressText bounds what a job says beside its figures, in characters.
const maxProgressText = 100

// Progress is how far a job says it is.
type Progress struct {
	Done  float64   `json:"done"`
	Total float64   `json:"total"` // 100 where the job said a percentage
	Text  string    `json:"text,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Share is the part that is done, 0 to 1.
func (p Progress) Share() float64 { return min(p.Done/p.Total, 1) }

// Figures are the two numbers as people read them: "11/54", "42%".
func (p Progress) Figures() string {
	if p.Total == 100 {
		return number(p.Done) + "%"
	}
	return number(p.Done) + "/" + number(p.Total)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// ParseProgress reads "11/54 epochs" or "42% of the slides", with or without [ProgressMark]. What it cannot read is no
// progress.
func ParseProgress(line string) (Progress, bool) {
	line = strings.TrimSpace(strings.TrimPrefix(line, ProgressMark))
	figures, text, _ := strings.Cut(line, " ")
	var p Progress
	var ok bool
	if percent, is := strings.CutSuffix(figures, "%"); is {
		p.Done, ok = figure(percent)
		p.Total = 100
	} else if done, total, is := strings.Cut(figures, "/"); is {
		var okTotal bool
		p.Done, ok = figure(done)
		p.Total, okTotal = figure(total)
		ok = ok && okTotal
	}
	if !ok || p.Total <= 0 {
		return Progress{}, false
	}
	p.Done = min(p.Done, p.Total)
	p.Text = plainText(text)
	return p, true
}

// figure reads a number that a bar can be drawn of.
func figure(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && f >= 0 && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// plainText drops what would garble a screen and shortens the rest.
func plainText(s string) string {
	var out []rune
	for _, r := range strings.ToValidUTF8(strings.TrimSpace(s), "") {
		if len(out) == maxProgressText {
			return string(out) + "…"
		}
		if unicode.IsPrint(r) {
			out = append(out, r)
		}
	}
	return string(out)
}
