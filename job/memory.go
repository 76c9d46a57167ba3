package job

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Memory is a size in MiB, "auto", or absent (its zero value).
//
// Everything here counts in powers of two: 20G, 20GB, 20Gi and 20GiB are all 20480 MiB, and a number without a unit
// is MiB. Card vendors and Slurm count the same way.
type Memory struct {
	how setting
	mb  int64
}

// AutoMemory is the Memory "auto".
var AutoMemory = Memory{how: settingAuto}

// maxMemoryMB is one EiB: larger is a typing error.
const maxMemoryMB = 1 << 40

// MemoryOf is the Memory of exactly mb MiB.
func MemoryOf(mb int64) Memory { return Memory{how: settingExact, mb: mb} }

var memoryUnits = map[string]float64{
	"b": 1.0 / (1 << 20), "k": 1.0 / (1 << 10), "m": 1, "g": 1 << 10, "t": 1 << 20, "p": 1 << 30,
}

// ParseMemory reads "20Gi", "8000", "8000MB", "1.5Ti" or "auto"; "" is absent. A fraction of a MiB is rounded up.
func ParseMemory(s string) (Memory, error) {
	s = strings.TrimSpace(s)
	switch s {
	case "":
		return Memory{}, nil
	case auto:
		return AutoMemory, nil
	}
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	number, err := strconv.ParseFloat(s[:end], 64)
	factor, known := memoryUnit(s[end:])
	if err != nil || !known {
		return Memory{}, fmt.Errorf("%s is not a memory size: want for example 20Gi, 8000MB, 8000 (MiB) or auto", quoted(s))
	}
	mb := math.Ceil(number * factor)
	if mb > maxMemoryMB {
		return Memory{}, fmt.Errorf("%s of memory is more than any machine has", quoted(s))
	}
	return MemoryOf(int64(mb)), nil
}

// memoryUnit is the number of MiB in a unit such as "", "Gi", "GB", "GiB", "g" or "B".
func memoryUnit(s string) (factor float64, known bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "" {
		return 1, true
	}
	if len(s) > 1 {
		if s[0] == 'b' {
			return 0, false
		}
		switch s[1:] {
		case "i", "b", "ib":
		default:
			return 0, false
		}
	}
	factor, known = memoryUnits[s[:1]]
	return factor, known
}

// IsZero reports absence; encoding/json omits such a Memory.
func (m Memory) IsZero() bool { return m.how == settingAbsent }

// IsAuto reports whether the Memory is "auto".
func (m Memory) IsAuto() bool { return m.how == settingAuto }

// MB is the size in MiB and whether one was given.
func (m Memory) MB() (mb int64, ok bool) { return m.mb, m.how == settingExact }

// Equal compares two sizes; 0 and absent differ.
func (m Memory) Equal(other Memory) bool { return m == other }

// String is "" for an absent Memory, else "auto", or the size with the largest unit that divides it ("20Gi").
func (m Memory) String() string {
	switch m.how {
	case settingAbsent:
		return ""
	case settingAuto:
		return auto
	}
	units := []string{"Mi", "Gi", "Ti", "Pi"}
	mb, u := m.mb, 0
	for mb != 0 && mb%1024 == 0 && u < len(units)-1 {
		mb, u = mb/1024, u+1
	}
	return strconv.FormatInt(mb, 10) + units[u]
}

// MarshalJSON writes the number of MiB, "auto", or null.
func (m Memory) MarshalJSON() ([]byte, error) {
	switch m.how {
	case settingAbsent:
		return []byte("null"), nil
	case settingAuto:
		return []byte(`"auto"`), nil
	}
	return strconv.AppendInt(nil, m.mb, 10), nil
}

// UnmarshalJSON reads what MarshalJSON writes, and every form of ParseMemory in quotes.
func (m *Memory) UnmarshalJSON(data []byte) error { return unmarshalText(data, m.UnmarshalText) }

// UnmarshalText is ParseMemory.
func (m *Memory) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMemory(string(text))
	return err
}
