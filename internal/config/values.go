package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
)

// GPUSelection says which of the machine's GPUs a worker gives out; its zero value is all.
type GPUSelection struct {
	text    string
	indexes []job.Array
	uuids   []string
}

// UnmarshalText reads "all", or a list of indexes, ranges and UUIDs: "0-3", "0,2,GPU-6a1f0c52-…".
func (g *GPUSelection) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	*g = GPUSelection{}
	if s == "all" || s == "" {
		return nil
	}
	g.text = s
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "GPU-") || strings.HasPrefix(part, "MIG-") {
			g.uuids = append(g.uuids, part)
			continue
		}
		a, err := job.ParseArray(part)
		if err != nil || a.MaxConcurrent() > 0 {
			return fmt.Errorf("%q: want all, indexes such as 0-3 or 0,2, or UUIDs such as GPU-6a1f0c52-…", clip(part))
		}
		g.indexes = append(g.indexes, a)
	}
	return nil
}

// All reports that nothing is left out.
func (g GPUSelection) All() bool { return g.text == "" }

// Has reports whether a GPU is among them.
func (g GPUSelection) Has(index int, uuid string) bool {
	if g.All() || slices.Contains(g.uuids, uuid) {
		return true
	}
	return slices.ContainsFunc(g.indexes, func(a job.Array) bool {
		_, ok := a.Position(index)
		return ok
	})
}

// String is the selection as written.
func (g GPUSelection) String() string {
	if g.All() {
		return "all"
	}
	return g.text
}

// Weights are what free memory and idleness count in the score of a GPU.
type Weights struct{ Memory, Idle float64 }

// UnmarshalText reads "memory=0.6,idle=0.4"; one that is left out counts nothing.
func (w *Weights) UnmarshalText(text []byte) error {
	pairs, err := parsePairs(string(text))
	if err != nil {
		return err
	}
	*w = Weights{}
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		f, err := strconv.ParseFloat(pairs[k], 64)
		if err != nil || !(f >= 0 && f <= 1e6) {
			return fmt.Errorf("%s: %q is not a weight: want a number from 0 up", k, clip(pairs[k]))
		}
		switch k {
		case "memory":
			w.Memory = f
		case "idle":
			w.Idle = f
		default:
			return fmt.Errorf("%s: want memory=0.6,idle=0.4", k)
		}
	}
	if w.Memory+w.Idle == 0 {
		return errors.New("memory and idle cannot both be 0")
	}
	return nil
}

// Labels describe a machine: "rack=a,pool=batch".
type Labels map[string]string

// UnmarshalText reads K=V pairs; a later one for the same key wins, so a repeated flag does.
func (l *Labels) UnmarshalText(text []byte) error {
	pairs, err := parsePairs(string(text))
	*l = pairs
	return err
}

func parsePairs(s string) (map[string]string, error) {
	pairs := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		if k = strings.TrimSpace(k); !ok || k == "" {
			return nil, fmt.Errorf("%q: want KEY=VALUE pairs with commas between", clip(part))
		}
		pairs[k] = strings.TrimSpace(v)
	}
	return pairs, nil
}
