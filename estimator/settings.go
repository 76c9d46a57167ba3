package estimator

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/berthq/berth/estimator/launch"
)

// settings are what the job says about its run, from its own command line and from its parameters. The command line
// is what really runs, so it wins; a value it leaves open comes from the parameters.
type settings struct {
	flags   launch.Flags
	params  map[string]any    // by canonical name
	spelled map[string]string // canonical name -> as written
}

func newSettings(flags launch.Flags, params map[string]any) *settings {
	s := &settings{flags: flags, params: make(map[string]any, len(params)), spelled: make(map[string]string, len(params))}
	names := make([]string, 0, len(params))
	for name := range params {
		names = append(names, name)
	}
	sort.Strings(names) // two spellings of one name: always the same one wins
	for _, name := range names {
		c := launch.Canonical(name)
		if _, twice := s.params[c]; !twice {
			s.params[c], s.spelled[c] = params[name], name
		}
	}
	return s
}

// find is the raw value of the first name that is set, and where it stands.
func (s *settings) find(names []string) (value any, field string, ok bool) {
	for _, n := range names {
		if v, ok := s.flags[n]; ok && v != "" {
			return v, "--" + n, true
		}
	}
	for _, n := range names {
		if v, ok := s.params[n]; ok && v != nil {
			return v, "parameters." + s.spelled[n], true
		}
	}
	return nil, "", false
}

// sizes is the list of values of a parallel size; nil when it is not set.
func (s *settings) sizes(names ...string) ([]int, error) {
	value, field, ok := s.find(names)
	if !ok {
		return nil, nil
	}
	return sizes(field, value)
}

// maxCount bounds counts such as a context length.
const maxCount = 1 << 31

// count is a whole number such as a context length; a list gives its largest. "32k" is read as the engines do.
func (s *settings) count(names ...string) (int64, bool, error) {
	value, field, ok := s.find(names)
	if !ok {
		return 0, false, nil
	}
	most := int64(0)
	for _, item := range listed(value) {
		n, err := countOf(field, item)
		if err != nil {
			return 0, false, err
		}
		most = max(most, n)
	}
	return most, most > 0, nil
}

func countOf(field string, value any) (int64, error) {
	if text, ok := value.(string); ok {
		if strings.EqualFold(text, "auto") || text == "-1" {
			return 0, nil
		}
		value = expandUnit(text)
	}
	f, ok := number(value)
	if !ok || f < 0 || f != float64(int64(f)) || f > maxCount {
		return 0, fmt.Errorf("%s: %w: %s; a whole number up to %d is needed", field, ErrValue, show(value), int64(maxCount))
	}
	return int64(f), nil
}

// expandUnit reads 32k (1000) and 32K (1024), as vLLM does.
func expandUnit(text string) any {
	text = strings.TrimSpace(text)
	if len(text) < 2 {
		return text
	}
	unit, ok := map[byte]float64{'k': 1e3, 'm': 1e6, 'K': 1 << 10, 'M': 1 << 20}[text[len(text)-1]]
	if !ok {
		return text
	}
	f, isNumber := number(text[:len(text)-1])
	if !isNumber {
		return text
	}
	return f * unit
}

// fraction is a share in (0, 1].
func (s *settings) fraction(names ...string) (float64, bool, error) {
	value, field, ok := s.find(names)
	if !ok {
		return 0, false, nil
	}
	most := 0.0
	for _, item := range listed(value) {
		f, isNumber := number(item)
		if !isNumber || !(f > 0 && f <= 1) {
			return 0, false, fmt.Errorf("%s: %w: %s; a share above 0 and at most 1 is needed", field, ErrValue, show(item))
		}
		most = max(most, f)
	}
	return most, true, nil
}

// text is a word, lower case; "" when not set. A list gives its first.
func (s *settings) text(names ...string) string {
	value, _, ok := s.find(names)
	if !ok {
		return ""
	}
	for _, item := range listed(value) {
		switch v := item.(type) {
		case string:
			return strings.ToLower(strings.TrimSpace(v))
		case bool, int, int64, uint64, float64:
			return strings.ToLower(fmt.Sprint(v))
		}
	}
	return ""
}

// on reports a switch that is set and not false.
func (s *settings) on(names ...string) bool {
	for _, n := range names {
		if v, ok := s.flags[n]; ok {
			return truth(v)
		}
	}
	for _, n := range names {
		if v, ok := s.params[n]; ok {
			return truth(fmt.Sprint(listed(v)[0]))
		}
	}
	return false
}

func truth(text string) bool {
	if text == "" {
		return true
	}
	b, err := strconv.ParseBool(strings.ToLower(text))
	return err == nil && b || strings.EqualFold(text, "yes") || strings.EqualFold(text, "on")
}

// listed is the values of a sweep, or the one value; never empty.
func listed(value any) []any {
	switch v := value.(type) {
	case []any:
		if len(v) > 0 && len(v) <= maxList {
			return v
		}
		return []any{nil}
	case map[string]any:
		if inner, ok := v["values"].([]any); ok && len(inner) > 0 {
			return listed(inner)
		}
	}
	return []any{value}
}
