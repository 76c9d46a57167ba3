package job

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

func (s Spec) checkTasks(ps *problems) {
	before := len(*ps)
	for _, key := range slices.Sorted(maps.Keys(s.Matrix)) {
		s.checkMatrixKey(ps, key)
	}
	for i, e := range s.Exclude {
		s.checkExclusion(ps, indexed("exclude", i), e)
	}
	if len(*ps) > before {
		return
	}
	if _, err := Expand(s); err != nil {
		path := "array"
		if s.Array == "" {
			path = "matrix"
		}
		ps.add(path, "%s", err)
	}
}

// matrixKey is what can be a word in a command.
var matrixKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`)

func (s Spec) checkMatrixKey(ps *problems, key string) {
	path := "matrix." + key
	word := ParamWord(key)
	switch {
	case !matrixKey.MatchString(key):
		ps.add("matrix", "%s: a key is letters, digits, - and _", quoted(key))
		return
	case slices.Contains(CommandWords, word):
		ps.add(path, "{{.%s}} has a meaning already: rename the key", word)
	case len(s.Matrix[key]) == 0:
		ps.add(path, "has no values")
	}
	for other := range s.Matrix {
		if other < key && ParamWord(other) == word {
			ps.add(path, "and %s are the same word {{.%s}}", other, word)
		}
	}
	for i, v := range s.Matrix[key] {
		if !isScalar(v) {
			ps.add(indexed(path, i), "want text, a number or true/false")
		}
	}
}

func (s Spec) checkExclusion(ps *problems, path string, e map[string]any) {
	if len(e) == 0 {
		ps.add(path, "names no key, so it would leave out nothing")
	}
	for _, key := range slices.Sorted(maps.Keys(e)) {
		switch {
		case s.Matrix == nil:
			ps.add(path, "there is no matrix to leave something out of")
			return
		case s.Matrix[key] == nil:
			ps.add(path+"."+key, "is not a key of the matrix%s", didYouMean(key, slices.Sorted(maps.Keys(s.Matrix))))
		case !isScalar(e[key]):
			ps.add(path+"."+key, "want text, a number or true/false")
		}
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, float64, int, int64, uint64, json.Number:
		return true
	}
	return false
}
