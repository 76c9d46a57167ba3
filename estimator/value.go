package estimator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrValue marks a parameter whose value is no size.
var ErrValue = errors.New("not a size")

// maxSize bounds one parallel size; maxWorld the product of all.
const (
	maxSize  = 1 << 16
	maxWorld = 1 << 20
	maxList  = 4096
)

// sizes reads a parallel size: a number, a numeric string, a list of them, or {"type": "choice", "values": [...]}.
func sizes(field string, value any) ([]int, error) {
	switch v := value.(type) {
	case []any:
		return sizeList(field, v)
	case []int:
		list := make([]any, len(v))
		for i, n := range v {
			list[i] = n
		}
		return sizeList(field, list)
	case map[string]any:
		return choice(field, v)
	}
	n, err := size(field, value)
	if err != nil {
		return nil, err
	}
	return []int{n}, nil
}

func sizeList(field string, list []any) ([]int, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w: the list is empty; name at least one size", field, ErrValue)
	}
	if len(list) > maxList {
		return nil, fmt.Errorf("%s: %w: a list of %d values, at most %d", field, ErrValue, len(list), maxList)
	}
	out := make([]int, 0, len(list))
	for i, item := range list {
		n, err := size(field, item)
		if err != nil {
			_, err = size(fmt.Sprintf("%s[%d]", field, i), item) // now with its place
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func choice(field string, m map[string]any) ([]int, error) {
	if kind, _ := m["type"].(string); kind != "choice" {
		return nil, fmt.Errorf(`%s: %w: a mapping must be {"type": "choice", "values": [...]}, not type %q`, field, ErrValue, fmt.Sprint(m["type"]))
	}
	switch v := m["values"].(type) {
	case []any:
		return sizeList(field+".values", v)
	case []int:
		return sizes(field+".values", v)
	}
	return nil, fmt.Errorf("%s.values: %w: a list is needed, not %s", field, ErrValue, show(m["values"]))
}

func size(field string, value any) (int, error) {
	f, ok := number(value)
	switch {
	case !ok:
		return 0, fmt.Errorf("%s: %w: %s; a whole number from 1 up is needed", field, ErrValue, show(value))
	case f != math.Trunc(f) || math.IsInf(f, 0) || math.IsNaN(f):
		return 0, fmt.Errorf("%s: %w: %s is not a whole number", field, ErrValue, show(value))
	case f < 1:
		return 0, fmt.Errorf("%s: %w: %s; sizes start at 1", field, ErrValue, show(value))
	case f > maxSize:
		return 0, fmt.Errorf("%s: %w: %s is more than any fleet has (at most %d)", field, ErrValue, show(value), maxSize)
	}
	return int(f), nil
}

// number reads every form a decoder gives a number in, and numeric strings.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case string:
		s := strings.TrimSpace(v)
		if s == "" || strings.ContainsAny(s, "xXpP_") { // ParseFloat would take hexadecimal
			return 0, false
		}
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil
	}
	return 0, false
}

// show quotes a value for an error, short.
func show(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		text = strconv.Quote(clip(v, 60))
	default:
		text = fmt.Sprint(v)
	}
	return clip(text, 80)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
