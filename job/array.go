package job

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// MaxTasks is the most tasks of one group.
const MaxTasks = 100_000

// maxIndex keeps task indexes at nine digits.
const maxIndex = 999_999_999

// Array is a parsed task list: "1-150", "0-9:2" (every second), "1,5,7-9", each with "%8" for at most eight at a time.
// It holds ranges, not indexes, so an array of 100,000 costs no more than one of two.
type Array struct {
	ranges        []indexRange
	count         int
	maxConcurrent int
}

type indexRange struct{ first, last, step int }

func (r indexRange) count() int { return (r.last-r.first)/r.step + 1 }

func (r indexRange) has(index int) bool {
	return index >= r.first && index <= r.last && (index-r.first)%r.step == 0
}

// ParseArray reads array syntax. Tasks keep the order they are written in; an index named twice is an error.
func ParseArray(s string) (Array, error) {
	a, err := parseRanges(s)
	if err != nil {
		return Array{}, err
	}
	if len(a.ranges) > 1 {
		if twice, found := a.repeated(); found {
			return Array{}, fmt.Errorf("%s names task %d twice", quoted(s), twice)
		}
	}
	return a, nil
}

// parseRanges is ParseArray for text that was checked before: it does not look for repetition.
func parseRanges(s string) (Array, error) {
	var a Array
	list, limit, hasLimit := strings.Cut(strings.ReplaceAll(s, " ", ""), "%")
	if hasLimit {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > MaxTasks {
			return Array{}, fmt.Errorf("%s: after %% comes how many tasks run at a time, 1 to %d", quoted(s), MaxTasks)
		}
		a.maxConcurrent = n
	}
	for part := range strings.SplitSeq(list, ",") {
		r, err := parseRange(part)
		if err != nil {
			return Array{}, fmt.Errorf("%s: %w", quoted(s), err)
		}
		a.ranges = append(a.ranges, r)
		a.count += r.count()
		if a.count > MaxTasks {
			return Array{}, fmt.Errorf("%s has more than %d tasks: submit it in parts", quoted(s), MaxTasks)
		}
	}
	return a, nil
}

func parseRange(s string) (indexRange, error) {
	wrong := func() (indexRange, error) {
		return indexRange{}, fmt.Errorf("%s is neither a number nor a range such as 1-150 or 0-9:2", quoted(s))
	}
	span, stepText, hasStep := strings.Cut(s, ":")
	firstText, lastText, isSpan := strings.Cut(span, "-")
	if !isSpan {
		lastText = firstText
	}
	first, err := parseIndex(firstText)
	if err != nil {
		return wrong()
	}
	last, err := parseIndex(lastText)
	if err != nil || hasStep && !isSpan {
		return wrong()
	}
	step := 1
	if hasStep {
		if step, err = parseIndex(stepText); err != nil || step == 0 {
			return wrong()
		}
	}
	if last < first {
		return indexRange{}, fmt.Errorf("the range %s runs backwards: write %d-%d", s, last, first)
	}
	return indexRange{first, last, step}, nil
}

// parseIndex accepts digits only: strconv would take "+3" too.
func parseIndex(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, err
	}
	if n > maxIndex {
		return 0, strconv.ErrRange
	}
	return int(n), nil
}

func (a Array) repeated() (index int, found bool) {
	seen := make(map[int]struct{}, a.count)
	for _, index := range a.All() {
		if _, twice := seen[index]; twice {
			return index, true
		}
		seen[index] = struct{}{}
	}
	return 0, false
}

// Count is the number of tasks.
func (a Array) Count() int { return a.count }

// MaxConcurrent is the number after %; 0 when there is none.
func (a Array) MaxConcurrent() int { return a.maxConcurrent }

// At is the index of the task at a position, the first at 0.
func (a Array) At(pos int) (index int, ok bool) {
	if pos < 0 {
		return 0, false
	}
	for _, r := range a.ranges {
		if n := r.count(); pos < n {
			return r.first + pos*r.step, true
		} else {
			pos -= n
		}
	}
	return 0, false
}

// Position is where the task with that index stands: the inverse of At.
func (a Array) Position(index int) (pos int, ok bool) {
	for _, r := range a.ranges {
		if r.has(index) {
			return pos + (index-r.first)/r.step, true
		}
		pos += r.count()
	}
	return 0, false
}

// All yields position and index of each task, in order.
func (a Array) All() iter.Seq2[int, int] {
	return func(yield func(pos, index int) bool) {
		pos := 0
		for _, r := range a.ranges {
			for index := r.first; index <= r.last; index += r.step {
				if !yield(pos, index) {
					return
				}
				pos++
			}
		}
	}
}

// String is the list without the limit: what Tasks.Indexes holds.
func (a Array) String() string {
	var b strings.Builder
	for i, r := range a.ranges {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(r.first))
		if r.last == r.first {
			continue
		}
		fmt.Fprintf(&b, "-%d", r.last)
		if r.step > 1 {
			fmt.Fprintf(&b, ":%d", r.step)
		}
	}
	return b.String()
}
