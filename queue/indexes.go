package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
)

// span is one part of an array: from, from+step, ... up to last.
type span struct{ from, last, step int }

func (s span) len() int { return (s.last-s.from)/s.step + 1 }

// spans are the task indexes of a group, in order, without writing each out.
type spans []span

// parseSpans reads array syntax: "1-150", "0-9:2", "1,5,7-9". A throttle ("%8") at the end is no part of the indexes;
// no text means 0 to count-1.
func parseSpans(t *job.Tasks) (spans, error) {
	text, _, _ := strings.Cut(t.Indexes, "%")
	if strings.TrimSpace(text) == "" {
		return spans{{0, t.Count - 1, 1}}, nil
	}
	var all spans
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("indexes %q: %w", t.Indexes, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// parseSpan reads "7", "1-150" or "0-9:2".
func parseSpan(s string) (span, error) {
	ends, stepText, hasStep := strings.Cut(s, ":")
	step := 1
	if hasStep {
		var err error
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return span{}, fmt.Errorf("step %q is not a number from 1 up", stepText)
		}
	}
	first, last, isSpan := strings.Cut(ends, "-")
	from, err := strconv.Atoi(first)
	if err != nil || from < 0 {
		return span{}, fmt.Errorf("%q is not an index", first)
	}
	to := from
	if isSpan {
		if to, err = strconv.Atoi(last); err != nil || to < from {
			return span{}, fmt.Errorf("%q is not a span such as 1-150", ends)
		}
	}
	return span{from, to, step}, nil
}

// check says whether the spans are count different indexes.
func (all spans) check(count int) error {
	n := 0
	for _, s := range all {
		n += s.len()
	}
	if n != count {
		return fmt.Errorf("the indexes are %d tasks, the count says %d", n, count)
	}
	seen := make(map[int]bool, n)
	for _, s := range all {
		for i := s.from; i <= s.last; i += s.step {
			if seen[i] {
				return fmt.Errorf("index %d is there twice", i)
			}
			seen[i] = true
		}
	}
	return nil
}

// at is the index of the task at a position, from 0.
func (all spans) at(pos int) (int, bool) {
	for _, s := range all {
		if pos < s.len() {
			return s.from + pos*s.step, pos >= 0
		}
		pos -= s.len()
	}
	return 0, false
}

// position is the inverse of at.
func (all spans) position(index int) (int, bool) {
	before := 0
	for _, s := range all {
		if index >= s.from && index <= s.last && (index-s.from)%s.step == 0 {
			return before + (index-s.from)/s.step, true
		}
		before += s.len()
	}
	return 0, false
}

// taskPosition finds a task in its group's list; ok is false for an index the group does not have.
func taskPosition(t *job.Tasks, index int) (pos int, ok bool) {
	all, err := parseSpans(t)
	if err != nil {
		return 0, false
	}
	pos, ok = all.position(index)
	return pos, ok && pos < t.Count
}

// TaskParams are the parameters of one task of a matrix, nil where it has none.
func TaskParams(j *job.Job, index int) map[string]any {
	if j.Tasks == nil || j.Tasks.Params == nil {
		return nil
	}
	if pos, ok := taskPosition(j.Tasks, index); ok && pos < len(j.Tasks.Params) {
		return j.Tasks.Params[pos]
	}
	return nil
}
