package redact

import (
	"bytes"
	"strings"
)

// Mask stands where a value was.
const Mask = "[secret]"

// MinLength is the shortest value that can be kept out: a shorter one would tear up what has nothing to do with it.
const MinLength = 4

// minLine is the shortest line of a value of several lines that is kept out by itself.
const minLine = 8

// Redactor replaces values in one stream. What may be the beginning of one is held back until more is known. Not safe
// for concurrent use.
type Redactor struct {
	values  [][]byte
	longest int

	held    []byte // the end of the stream so far: it may be the beginning of a value
	covered int    // of held, from its start: they belong to a value whose mask is out
	inside  bool   // a mask was the last that went out
	hidden  []bool // of the bytes at hand, scratch
	out     []byte
}

// New returns a redactor for the values; nil when there is none to keep out.
func New(values []string) *Redactor {
	r := &Redactor{}
	seen := map[string]bool{}
	for _, v := range values {
		for _, form := range forms(v) {
			if len(form) >= MinLength && !seen[form] {
				seen[form] = true
				r.values = append(r.values, []byte(form))
				r.longest = max(r.longest, len(form))
			}
		}
	}
	if len(r.values) == 0 {
		return nil
	}
	return r
}

// forms are the ways in which a value is found: as it is, as JSON has it, and line by line.
func forms(v string) []string {
	all := []string{v, escape(v), strings.ReplaceAll(v, "\n", "\r\n")}
	lines := strings.FieldsFunc(v, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) < 2 {
		return all
	}
	for _, line := range lines {
		if len(line) >= minLine {
			all = append(all, line)
		}
	}
	return all
}

// escape is a value inside a JSON string, as most writers have it.
func escape(v string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(v)
}

// Next takes the next bytes of the stream and returns what may go on, valid until the next call.
func (r *Redactor) Next(p []byte) []byte { return r.pass(p, false) }

// End returns what was held back: the stream is over.
func (r *Redactor) End() []byte { return r.pass(nil, true) }

func (r *Redactor) pass(p []byte, end bool) []byte {
	b := append(r.held, p...) //nolint:gocritic // held is made anew below
	r.mark(b)
	cut := len(b)
	if !end {
		cut = r.pending(b)
	}
	r.out = r.out[:0]
	for i := range cut {
		if !r.hidden[i] {
			r.out = append(r.out, b[i])
		} else if !r.inside {
			r.out = append(r.out, Mask...)
		}
		r.inside = r.hidden[i]
	}
	r.covered = 0
	for i := cut; r.inside && i < len(b) && r.hidden[i]; i++ {
		r.covered++
	}
	r.held = append(r.held[:0], b[cut:]...)
	return r.out
}

// mark finds every byte that belongs to a value.
func (r *Redactor) mark(b []byte) {
	if cap(r.hidden) < len(b) {
		r.hidden = make([]bool, 2*len(b))
	}
	r.hidden = r.hidden[:len(b)]
	clear(r.hidden)
	for i := range r.covered {
		r.hidden[i] = true
	}
	for _, v := range r.values {
		for from := 0; ; {
			at := bytes.Index(b[from:], v)
			if at < 0 {
				break
			}
			for i := from + at; i < from+at+len(v); i++ {
				r.hidden[i] = true
			}
			from += at + 1
		}
	}
}

// pending is where the first thing begins that may grow into a value.
func (r *Redactor) pending(b []byte) int {
	for i := max(0, len(b)-r.longest+1); i < len(b); i++ {
		for _, v := range r.values {
			if rest := b[i:]; len(rest) < len(v) && bytes.HasPrefix(v, rest) {
				return i
			}
		}
	}
	return len(b)
}

// Text returns a whole text without the values.
func Text(text string, values []string) string {
	r := New(values)
	if r == nil {
		return text
	}
	out := string(r.Next([]byte(text)))
	return out + string(r.End())
}
