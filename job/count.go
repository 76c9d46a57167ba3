package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// auto is the word for "you decide" in counts and sizes.
const auto = "auto"

// setting says how a Count or a Memory was given. The zero value is absence: unknown is absent, never zero.
type setting uint8

const (
	settingAbsent setting = iota
	settingAuto
	settingExact
)

// Count is a number, "auto", or absent (its zero value).
type Count struct {
	how setting
	n   int
}

// AutoCount is the Count "auto".
var AutoCount = Count{how: settingAuto}

// maxCount bounds a Count: more GPUs than any gang has, far from overflow in any product.
const maxCount = 1 << 20

// CountOf is the Count of exactly n.
func CountOf(n int) Count { return Count{how: settingExact, n: n} }

// ParseCount reads "auto" or a whole number from 0 up; "" is absent.
func ParseCount(s string) (Count, error) {
	s = strings.TrimSpace(s)
	switch s {
	case "":
		return Count{}, nil
	case auto:
		return AutoCount, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxCount {
		return Count{}, fmt.Errorf("%s is not a count: want a whole number from 0 to %d, or auto", quoted(s), maxCount)
	}
	return CountOf(n), nil
}

// IsZero reports absence; encoding/json omits such a Count.
func (c Count) IsZero() bool { return c.how == settingAbsent }

// IsAuto reports whether the Count is "auto".
func (c Count) IsAuto() bool { return c.how == settingAuto }

// Value is the number and whether one was given.
func (c Count) Value() (n int, ok bool) { return c.n, c.how == settingExact }

// Equal compares two counts; 0 and absent differ.
func (c Count) Equal(other Count) bool { return c == other }

// String is "" for an absent Count, else "auto" or the number.
func (c Count) String() string {
	switch c.how {
	case settingAbsent:
		return ""
	case settingAuto:
		return auto
	}
	return strconv.Itoa(c.n)
}

// MarshalJSON writes a number, "auto", or null.
func (c Count) MarshalJSON() ([]byte, error) {
	switch c.how {
	case settingAbsent:
		return []byte("null"), nil
	case settingAuto:
		return []byte(`"auto"`), nil
	}
	return strconv.AppendInt(nil, int64(c.n), 10), nil
}

// UnmarshalJSON reads what MarshalJSON writes, and a number in quotes.
func (c *Count) UnmarshalJSON(data []byte) error { return unmarshalText(data, c.UnmarshalText) }

// UnmarshalText is ParseCount.
func (c *Count) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCount(string(text))
	return err
}

// unmarshalText feeds the text of a JSON scalar to read; null reads as "".
func unmarshalText(data []byte, read func([]byte) error) error {
	if string(data) == "null" {
		return read(nil)
	}
	s, err := scalarText(json.RawMessage(data))
	if err != nil {
		return err
	}
	return read([]byte(s))
}

// quoted shows user text inside an error: control characters escaped, length bounded.
func quoted(s string) string {
	const limit = 80
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit]) + "…"
	}
	return strconv.Quote(s)
}
