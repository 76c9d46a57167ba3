package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Config is a decoded config.json.
type Config = map[string]any

// Sentinels of this package.
var (
	// ErrConfig marks a config that is broken: a field missing, of the wrong kind, absurd or in contradiction.
	ErrConfig = errors.New("model config")
	// ErrUnknown marks an architecture that this package does not know.
	ErrUnknown = errors.New("unknown architecture")
)

// MaxConfig bounds a config.json; real ones are a few KiB, with long label lists some hundred.
const MaxConfig = 1 << 20

// Decode reads a config.json.
func Decode(data []byte) (Config, error) {
	if len(data) > MaxConfig {
		return nil, fmt.Errorf("%w: %d bytes; a config.json has at most %d", ErrConfig, len(data), MaxConfig)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	var c Config
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("%w: not a JSON object: %w", ErrConfig, err)
	}
	if c == nil {
		return nil, fmt.Errorf("%w: null, where an object is needed", ErrConfig)
	}
	return c, nil
}

// fields reads a config; the first fault is kept and names its field.
type fields struct {
	c      Config
	prefix string // "text_config."
	err    *error
}

func newFields(c Config) *fields {
	var err error
	return &fields{c: c, err: &err}
}

// within reads a nested object, with the same place for faults; absent: empty.
func (f *fields) within(names ...string) *fields {
	for _, n := range names {
		if c, ok := f.c[n].(map[string]any); ok {
			return &fields{c: c, prefix: f.prefix + n + ".", err: f.err}
		}
	}
	return &fields{c: Config{}, prefix: f.prefix, err: f.err}
}

func (f *fields) fail(format string, args ...any) {
	if *f.err == nil {
		*f.err = fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
}

func (f *fields) has(name string) bool { v, ok := f.c[name]; return ok && v != nil }

// What a config may say: far above any model, far from overflow in the products made of it.
const (
	maxField  = 1 << 18 // widths and counts
	maxLength = 1 << 27 // positions, windows
	maxVocab  = 1 << 21
)

// bound is the largest value a field may have.
func bound(name string) float64 {
	switch {
	case strings.Contains(name, "vocab"):
		return maxVocab
	case strings.Contains(name, "position"), strings.Contains(name, "window"), strings.Contains(name, "seq_len"),
		strings.Contains(name, "n_ctx"), strings.Contains(name, "chunk"), strings.Contains(name, "seq_length"):
		return maxLength
	}
	return maxField
}

// count is the first of the names that is set; 0 when none is.
func (f *fields) count(names ...string) int64 {
	for _, n := range names {
		v, ok := f.c[n]
		if !ok || v == nil {
			continue
		}
		x, ok := toFloat(v)
		switch {
		case !ok:
			f.fail("%s%s: %v is not a number", f.prefix, n, short(v))
		case x != math.Trunc(x) || math.IsInf(x, 0):
			f.fail("%s%s: %v is not a whole number", f.prefix, n, short(v))
		case x < 0:
			f.fail("%s%s: %v is negative", f.prefix, n, short(v))
		case x > bound(n):
			f.fail("%s%s: %v is absurd (more than %.0f)", f.prefix, n, short(v), bound(n))
		default:
			return int64(x)
		}
		return 0
	}
	return 0
}

// need is count for a field without which nothing can be computed.
func (f *fields) need(names ...string) int64 {
	n := f.count(names...)
	if n == 0 {
		f.fail("%s%s is missing or 0", f.prefix, strings.Join(names, " or "))
		return 1
	}
	return n
}

// or is count with a default.
func (f *fields) or(def int64, names ...string) int64 {
	for _, n := range names {
		if f.has(n) {
			return f.count(n)
		}
	}
	return def
}

func (f *fields) real(def float64, names ...string) float64 {
	for _, n := range names {
		if x, ok := toFloat(f.c[n]); ok && x > 0 && x < maxField {
			return x
		}
	}
	return def
}

func (f *fields) flag(def bool, names ...string) bool {
	for _, n := range names {
		switch v := f.c[n].(type) {
		case bool:
			return v
		case string:
			if b, err := strconv.ParseBool(v); err == nil {
				return b
			}
		}
	}
	return def
}

func (f *fields) text(names ...string) string {
	for _, n := range names {
		if s, ok := f.c[n].(string); ok {
			return s
		}
	}
	return ""
}

// maxEntries bounds a list in a config.
const maxEntries = 10_000

// counts is a list of whole numbers; one number stands for a list of one.
func (f *fields) counts(name string) []int64 {
	switch v := f.c[name].(type) {
	case nil:
		return nil
	case []any:
		if len(v) > maxEntries {
			f.fail("%s%s: a list of %d entries is absurd", f.prefix, name, len(v))
			return nil
		}
		out := make([]int64, 0, len(v))
		for _, item := range v {
			x, ok := toFloat(item)
			if !ok || x < 0 || x > maxField || x != math.Trunc(x) {
				f.fail("%s%s: %v is not a count", f.prefix, name, short(item))
				return nil
			}
			out = append(out, int64(x))
		}
		return out
	default:
		return []int64{f.count(name)}
	}
}

func toFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, !math.IsNaN(x)
	case int:
		return float64(x), true
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case json.Number:
		y, err := x.Float64()
		return y, err == nil
	case string:
		y, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
		return y, err == nil && !math.IsNaN(y)
	}
	return 0, false
}

func short(v any) string {
	s := fmt.Sprintf("%v", v)
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
