package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Task is one member of a group.
type Task struct {
	Pos          int            // 0 is the first
	Index        int            // as the user wrote it; a matrix counts from 1
	Params       map[string]any // of a matrix
	Requirements Requirements
}

// Expand turns the array or matrix of a spec into Tasks; nil when it has neither. Requirements are the caller's to
// fill where the tasks of a matrix differ.
func Expand(s Spec) (*Tasks, error) {
	switch {
	case s.Array != "" && len(s.Matrix) > 0:
		return nil, errors.New("array and matrix exclude each other: a matrix numbers its tasks itself")
	case s.Array != "" && len(s.Points) > 0:
		return nil, errors.New("array and points exclude each other: points number their tasks themselves")
	case len(s.Matrix) > 0 && len(s.Points) > 0:
		return nil, errors.New("matrix and points exclude each other: write the points out, or let the matrix make them")
	case s.Array != "":
		a, err := ParseArray(s.Array)
		if err != nil {
			return nil, err
		}
		return &Tasks{Indexes: a.String(), Count: a.Count(), MaxConcurrent: a.MaxConcurrent()}, nil
	case len(s.Matrix) > 0:
		return expandMatrix(s.Matrix, s.Exclude)
	case len(s.Points) > 0:
		return expandPoints(s.Points)
	case len(s.Exclude) > 0:
		return nil, errors.New("exclude without a matrix: there is nothing to leave out")
	}
	return nil, nil
}

// expandMatrix lists every combination but the excluded ones: keys in alphabetical order, the last turning fastest.
func expandMatrix(matrix map[string][]any, exclude []map[string]any) (*Tasks, error) {
	keys := slices.Sorted(maps.Keys(matrix))
	total := 1
	for _, k := range keys {
		total *= len(matrix[k])
		if total > MaxTasks {
			return nil, fmt.Errorf("the matrix has more than %d combinations", MaxTasks)
		}
	}
	if total == 0 {
		return nil, errors.New("a key of the matrix has no values, so it has no combinations")
	}
	t := &Tasks{}
	for n := range total {
		params := make(map[string]any, len(keys))
		rest := n
		for _, k := range slices.Backward(keys) {
			values := matrix[k]
			params[k] = values[rest%len(values)]
			rest /= len(values)
		}
		if !excluded(params, exclude) {
			t.Params = append(t.Params, params)
		}
	}
	t.Count = len(t.Params)
	if t.Count == 0 {
		return nil, errors.New("exclude leaves no combination of the matrix")
	}
	t.Indexes = countFromOne(t.Count)
	return t, nil
}

// expandPoints makes a task of each point, in the order in which they are written.
func expandPoints(points []map[string]any) (*Tasks, error) {
	if len(points) > MaxTasks {
		return nil, fmt.Errorf("there are %d points, at most %d make one group: submit them in parts", len(points), MaxTasks)
	}
	return &Tasks{Indexes: countFromOne(len(points)), Count: len(points), Params: points}, nil
}

func countFromOne(n int) string {
	if n == 1 {
		return "1"
	}
	return "1-" + strconv.Itoa(n)
}

// excluded reports whether params agree with every key of one of the exclusions.
func excluded(params map[string]any, exclusions []map[string]any) bool {
	return slices.ContainsFunc(exclusions, func(e map[string]any) bool {
		for k, v := range e {
			if ParamText(params[k]) != ParamText(v) {
				return false
			}
		}
		return len(e) > 0
	})
}

// ParamText is a parameter as it appears in a command: numbers without exponent, 2 and 2.0 alike, lists and maps as
// JSON.
func ParamText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return ParamText(f)
		}
		return v.String()
	case nil:
		return ""
	case []any, map[string]any:
		if b, err := json.Marshal(v); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v)
}

// At is the index of the task at a position, the first at 0, without listing the others.
func (t Tasks) At(pos int) (index int, ok bool) {
	a, err := parseRanges(t.Indexes)
	if err != nil {
		return 0, false
	}
	return a.At(pos)
}

// Position is where the task with that index stands.
func (t Tasks) Position(index int) (pos int, ok bool) {
	a, err := parseRanges(t.Indexes)
	if err != nil {
		return 0, false
	}
	return a.Position(index)
}

// check reports lists that do not agree with each other: tasks come over the wire.
func (t Tasks) check() error {
	a, err := ParseArray(t.Indexes)
	switch {
	case err != nil:
		return err
	case t.Count != a.Count():
		return fmt.Errorf("the group says %d tasks and lists %d", t.Count, a.Count())
	case len(t.Params) != 0 && len(t.Params) != t.Count:
		return fmt.Errorf("the group has %d tasks and parameters for %d", t.Count, len(t.Params))
	case len(t.Requirements) != 0 && len(t.Requirements) != t.Count:
		return fmt.Errorf("the group has %d tasks and requirements for %d", t.Count, len(t.Requirements))
	case t.MaxConcurrent < 0:
		return fmt.Errorf("the group would run %d tasks at a time", t.MaxConcurrent)
	}
	return nil
}

// Task is the member of a group at a position.
func (j Job) Task(pos int) (Task, bool) {
	if j.Tasks == nil {
		return Task{}, false
	}
	index, ok := j.Tasks.At(pos)
	if !ok {
		return Task{}, false
	}
	return j.task(pos, index), true
}

// AllTasks yields the members of a group from a position on, without listing them first.
func (j Job) AllTasks(from int) iter.Seq[Task] {
	return func(yield func(Task) bool) {
		if j.Tasks == nil {
			return
		}
		a, err := parseRanges(j.Tasks.Indexes)
		if err != nil {
			return
		}
		for pos := from; ; pos++ {
			index, ok := a.At(pos)
			if !ok || !yield(j.task(pos, index)) {
				return
			}
		}
	}
}

func (j Job) task(pos, index int) Task {
	t := Task{Pos: pos, Index: index, Requirements: j.Requirements}
	switch { // the points of the spec need not be said twice
	case pos < len(j.Tasks.Params):
		t.Params = j.Tasks.Params[pos]
	case pos < len(j.Spec.Points):
		t.Params = j.Spec.Points[pos]
	}
	if pos < len(j.Tasks.Requirements) {
		t.Requirements = j.Tasks.Requirements[pos]
	}
	return t
}
