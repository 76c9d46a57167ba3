package estimator

import (
	"strconv"
	"strings"
)

// modelSize is a size as model names carry it: "7B", "1.7b", "8x7b".
type modelSize struct {
	experts  float64 // 0: no mixture
	billions float64
}

func (s modelSize) mixture() bool { return s.experts > 0 }

func (s modelSize) String() string {
	text := strconv.FormatFloat(s.billions, 'f', -1, 64) + "B"
	if s.mixture() {
		return strconv.FormatFloat(s.experts, 'f', -1, 64) + "x" + text
	}
	return text
}

// maxName bounds what is read of a model's name.
const maxName = 4096

// modelSizes are the sizes in a name, as numbers: "27b" is 27, not a 7 with a 2 in front; "8x7b" is a mixture;
// "30B-A3B" has 30 billion parameters (3 of them active).
func modelSizes(name string) []modelSize {
	name = strings.ToLower(clip(name, maxName))
	var out []modelSize
	for i := 0; i < len(name); {
		if !digit(name[i]) {
			i++
			continue
		}
		start := i
		for i < len(name) && (digit(name[i]) || name[i] == '.' || name[i] == 'x' && i+1 < len(name) && digit(name[i+1])) {
			i++
		}
		if i >= len(name) || name[i] != 'b' || i+1 < len(name) && letterOrDigit(name[i+1]) || activeMark(name, start) {
			continue
		}
		if s, ok := parseModelSize(name[start:i]); ok {
			out = append(out, s)
		}
	}
	return out
}

func parseModelSize(text string) (modelSize, bool) {
	var s modelSize
	if experts, each, ok := strings.Cut(text, "x"); ok {
		n, err := strconv.ParseFloat(experts, 64)
		if err != nil {
			return s, false
		}
		s.experts, text = n, each
	}
	// "v0.1.7b": what follows the last dot but one is the size
	for strings.Count(text, ".") > 1 {
		_, text, _ = strings.Cut(text, ".")
	}
	n, err := strconv.ParseFloat(text, 64)
	s.billions = n
	return s, err == nil
}

// activeMark: "-A3B" counts active parameters, "-E4B" effective ones; neither is the size.
func activeMark(name string, at int) bool {
	if at == 0 || name[at-1] != 'a' && name[at-1] != 'e' {
		return false
	}
	return at == 1 || !letterOrDigit(name[at-2])
}

func digit(c byte) bool         { return c >= '0' && c <= '9' }
func letterOrDigit(c byte) bool { return digit(c) || c >= 'a' && c <= 'z' }
