package launch

import (
	"strconv"
	"strings"
)

// maxShell bounds what is read of one shell string. A longer one is a program, not a launch line.
const maxShell = 64 << 10

// command is one simple command of a shell string.
type command struct {
	words      []string
	background bool // ended by a single &
}

// shell splits a shell string into simple commands. It knows quotes, escapes, comments, line continuations,
// assignments, ${X:-default} and `for X in a b c`; everything else passes through as text.
type shell struct {
	vars map[string]string
	out  []command
	cur  []string
	word strings.Builder
	open bool // a word is being read
	// unknown: the word holds a variable without a value
	unknown bool
}

// unreadable stands for a word whose value is known only when the shell runs.
const unreadable = "\x00"

func splitShell(text string, vars map[string]string) []command {
	if len(text) > maxShell {
		text = text[:maxShell]
	}
	s := &shell{vars: vars}
	s.read(text)
	return s.out
}

func (s *shell) read(text string) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			if text[i+1] != '\n' {
				s.put(text[i+1 : i+2])
			}
			i += 2
		case c == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				end = len(text) - i - 1
			}
			s.put(text[i+1 : i+1+end])
			i += end + 2
		case c == '"':
			i = s.readDouble(text, i+1)
		case c == '$':
			i = s.readVariable(text, i)
		case c == '#' && !s.open:
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(text)
			}
		case c == ' ' || c == '\t' || c == '\r':
			s.endWord()
			i++
		case (c == '>' || c == '<') && i+1 < len(text) && text[i+1] == '&':
			s.put(">&") // 2>&1 is no end of a command
			i += 2
		case c == '&' && i+1 < len(text) && text[i+1] == '>':
			s.put("&>")
			i += 2
		case c == '&' && (i+1 >= len(text) || text[i+1] != '&'):
			s.endCommand(true)
			i++
		case strings.IndexByte(";\n|&(){}`", c) >= 0 && (c != '{' && c != '}' || !s.open):
			s.endCommand(false)
			i++
		default:
			s.put(text[i : i+1])
			i++
		}
	}
	s.endCommand(false)
}

// readDouble reads from after an opening double quote and returns the position after the closing one.
func (s *shell) readDouble(text string, i int) int {
	s.put("")
	for i < len(text) && text[i] != '"' {
		switch {
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$`\n", text[i+1]) >= 0:
			if text[i+1] != '\n' {
				s.put(text[i+1 : i+2])
			}
			i += 2
		case text[i] == '$':
			i = s.readVariable(text, i)
		default:
			s.put(text[i : i+1])
			i++
		}
	}
	return i + 1
}

// readVariable reads $X, ${X}, ${X:-default} or $(…) at i and returns the position after it.
func (s *shell) readVariable(text string, i int) int {
	rest := text[i+1:]
	switch {
	case strings.HasPrefix(rest, "("):
		s.miss()
		return i + 2 // its content is read as commands of its own
	case strings.HasPrefix(rest, "{"):
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			s.miss()
			return len(text)
		}
		name, fallback, _ := strings.Cut(rest[1:end], "-")
		s.putVariable(strings.TrimSuffix(name, ":"), fallback)
		return i + 1 + end + 1
	}
	n := 0
	for n < len(rest) && isNameByte(rest[n]) {
		n++
	}
	if n == 0 {
		s.put("$")
		return i + 1
	}
	s.putVariable(rest[:n], "")
	return i + 1 + n
}

func (s *shell) putVariable(name, fallback string) {
	if value, ok := s.vars[name]; ok && value != "" {
		s.put(value)
		return
	}
	if fallback != "" {
		s.put(fallback)
		return
	}
	s.miss()
}

func (s *shell) put(text string) { s.open = true; s.word.WriteString(text) }
func (s *shell) miss()           { s.open = true; s.unknown = true }

func (s *shell) endWord() {
	if !s.open {
		return
	}
	text := s.word.String()
	if s.unknown {
		text += unreadable
	}
	s.cur = append(s.cur, text)
	s.word.Reset()
	s.open, s.unknown = false, false
}

func (s *shell) endCommand(background bool) {
	s.endWord()
	words := s.cur
	s.cur = nil
	for len(words) > 0 && (words[0] == "do" || words[0] == "then" || words[0] == "else" || words[0] == "if" || words[0] == "!") {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	if words[0] == "for" && len(words) > 3 && words[2] == "in" {
		s.set(words[1], largest(words[3:]))
		return
	}
	assigned := 0
	for _, w := range words {
		name, value, ok := strings.Cut(strings.TrimPrefix(w, "export "), "=")
		if !ok || !isName(name) {
			break
		}
		if !strings.Contains(value, unreadable) {
			s.set(name, value)
		}
		assigned++
	}
	if words[0] == "export" {
		for _, w := range words[1:] {
			if name, value, ok := strings.Cut(w, "="); ok && isName(name) && !strings.Contains(value, unreadable) {
				s.set(name, value)
			}
		}
		return
	}
	if assigned < len(words) {
		s.out = append(s.out, command{words: words[assigned:], background: background})
	}
}

func (s *shell) set(name, value string) {
	own := make(map[string]string, len(s.vars)+1) // the caller's map is not ours to write
	for k, v := range s.vars {
		own[k] = v
	}
	own[name] = value
	s.vars = own
}

// largest is the word that asks for most: a loop over sizes needs its largest.
func largest(words []string) string {
	best, most := words[0], int64(-1)
	for _, w := range words {
		if n, err := strconv.ParseInt(w, 10, 64); err == nil && n > most {
			best, most = w, n
		}
	}
	return best
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}
