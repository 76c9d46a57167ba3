package job

import (
	"math"
	"strings"
)

// Nearest is the known name most likely meant by word, for a "did you mean": one that differs only in case, dashes or
// number, or by few typing errors. Equally near names: the first.
func Nearest(word string, known []string) (name string, ok bool) {
	best := 1 + max(1, len(word)/3)
	folded := fold(word)
	for _, k := range known {
		switch f := fold(k); {
		case f == folded:
			return k, true
		case len(folded) >= 3 && (f == folded+"s" || folded == f+"s"):
			best, name = 0, k
		default:
			if d := distance(folded, f); d < best {
				best, name = d, k
			}
		}
	}
	return name, name != ""
}

var foldReplacer = strings.NewReplacer("-", "", "_", "", " ", "")

func fold(s string) string { return foldReplacer.Replace(strings.ToLower(s)) }

// distance counts the edits between two words: insert, delete, replace, or swap two neighbours.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 64 || len(y) > 64 {
		return math.MaxInt // not a typing error
	}
	var before []int
	last := make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		now := make([]int, len(y)+1)
		now[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			now[j+1] = min(last[j+1]+1, now[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last = last, now
	}
	return last[len(y)]
}

// didYouMean is the tail of an error about an unknown word: ` (did you mean "x"?)`, or nothing.
func didYouMean(word string, known []string) string {
	if name, ok := Nearest(word, known); ok {
		return " (did you mean `" + name + "`?)"
	}
	return ""
}
