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
	s.checkPoints(ps)
	if len(*ps) > before {
		return
	}
	if _, err := Expand(s); err != nil {
		path := "array"
		switch {
		case s.Array != "":
		case len(s.Matrix) > 0 || len(s.Exclude) > 0:
			path = "matrix"
		default:
			path = "points"
		}
		ps.add(path, "%s", err)
	}
}

// matrixKey is what can be a word in a command.
var matrixKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`)

func (s Spec) checkMatrixKey(ps *problems, key string) {
	path := "matrix." + key
	if !checkKey(ps, "matrix", key, slices.Collect(maps.Keys(s.Matrix))) {
		return
	}
	if len(s.Matrix[key]) == 0 {
		ps.add(path, "has no values")
	}
	for i, v := range s.Matrix[key] {
		if !isScalar(v) {
			ps.add(indexed(path, i), "want text, a number or true/false")
		}
	}
}

// checkKey says whether a key of a matrix or of points can be a word of the command.
func checkKey(ps *problems, where, key string, all []string) bool {
	word := ParamWord(key)
	switch {
	case !matrixKey.MatchString(key):
		ps.add(where, "%s: a key is letters, digits, - and _", quoted(key))
		return false
	case slices.Contains(CommandWords, word):
		ps.add(where+"."+key, "{{.%s}} has a meaning already: rename the key", word)
	}
	for _, other := range all {
		if other < key && ParamWord(other) == word {
			ps.add(where+"."+key, "and %s are the same word {{.%s}}", other, word)
		}
	}
	return true
}

// checkPoints wants the same keys in every point, each with one plain value.
func (s Spec) checkPoints(ps *problems) {
	if len(s.Points) == 0 {
		return
	}
	keys := slices.Sorted(maps.Keys(s.Points[0]))
	if len(keys) == 0 {
		ps.add("points[0]", "has no key, so nothing tells the tasks apart: array: 1-%d does that", len(s.Points))
		return
	}
	for _, key := range keys {
		checkKey(ps, "points", key, keys)
	}
	for i, point := range s.Points {
		if len(*ps) >= maxProblems {
			return
		}
		for _, key := range keys {
			v, given := point[key]
			switch {
			case !given:
				ps.add(indexed("points", i), "has no %s, as the first one has", quoted(key))
			case !isScalar(v):
				ps.add(indexed("points", i)+"."+key, "want text, a number or true/false")
			}
		}
		if len(point) > len(keys) {
			ps.add(indexed("points", i), "has keys that the first one has not")
		}
	}
}

// hasTasks reports whether the spec makes a group.
func (s Spec) hasTasks() bool { return s.Array != "" || len(s.Matrix) > 0 || len(s.Points) > 0 }

// checkGroup refuses limits of a group that mean nothing or contradict others.
func (s Spec) checkGroup(ps *problems) {
	g := s.Group
	if g == nil {
		return
	}
	if !s.hasTasks() {
		ps.add("group", "limits the tasks of a group, and this is a single job: add array: 1-10, a matrix or points, or leave it out")
		return
	}
	for _, limit := range []struct {
		field string
		n     int
	}{{"max_concurrent", g.MaxConcurrent}, {"max_gpus", g.MaxGPUs}, {"max_failures", g.MaxFailures}} {
		if limit.n < 0 || limit.n > maxCount {
			ps.add("group."+limit.field, "%d: want 1 or more, or leave it out", limit.n)
		}
	}
	if a, err := ParseArray(s.Array); err == nil && a.MaxConcurrent() > 0 && g.MaxConcurrent > 0 && a.MaxConcurrent() != g.MaxConcurrent {
		ps.add("group.max_concurrent", "says %d and array says %%%d: leave one of them out", g.MaxConcurrent, a.MaxConcurrent())
	}
	if n, exact := s.Resources.GPUs.Value(); exact && g.MaxGPUs > 0 && n > g.MaxGPUs {
		ps.add("group.max_gpus", "is %d and each task asks for %d GPUs, so none could ever start", g.MaxGPUs, n)
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
