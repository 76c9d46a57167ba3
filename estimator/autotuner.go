package estimator

import (
	"fmt"
	"slices"
)

// factor is one parallel size of the autotuner rule, with the names it goes by; the first that is there counts.
type factor struct {
	short string
	names []string
}

var factors = []factor{
	{"tp", []string{"tensor-parallel-size", "tp-size", "tp_size", "tp"}},
	{"pp", []string{"pipeline-parallel-size", "pp-size", "pp_size", "pp"}},
	{"dp", []string{"data-parallel-size", "dp-size", "dp_size", "dp"}},
	{"cp", []string{"context-parallel-size", "cp-size", "cp_size", "cp"}},
	{"dcp", []string{"decode-context-parallel-size", "dcp-size", "dcp_size", "dcp"}},
}

// isFactor reports whether a parameter is one of the rule's.
func isFactor(name string) bool {
	for _, f := range factors {
		if slices.Contains(f.names, name) {
			return true
		}
	}
	return false
}

// world is the outcome of a rule: how many GPUs, of which factors.
type world struct {
	gpus int
	text string        // "tp 4 x pp 2 x max(dp 1, dcp 2, cp 1)"
	say  func() string // writes text, for the one of many points that is taken
	rank ranks
}

// autotunerWorld is tp * pp * max(dp, dcp, cp), each the maximum of its list.
func autotunerWorld(params map[string]any) (world, error) {
	n := map[string]int{}
	for _, f := range factors {
		most, err := largestOf(params, f.names)
		if err != nil {
			return world{}, err
		}
		n[f.short] = most
	}
	wide := max(n["dp"], n["dcp"], n["cp"])
	gpus := n["tp"] * n["pp"]
	if gpus > maxWorld || gpus*wide > maxWorld {
		return world{}, fmt.Errorf("parameters: %w: tp %d x pp %d x %d is more GPUs than any fleet has", ErrValue, n["tp"], n["pp"], wide)
	}
	return world{
		gpus: gpus * wide,
		text: fmt.Sprintf("tp %d x pp %d x max(dp %d, dcp %d, cp %d)", n["tp"], n["pp"], n["dp"], n["dcp"], n["cp"]),
		rank: ranks{tp: n["tp"], pp: n["pp"], dp: n["dp"], dcp: 1, ep: 1},
	}, nil
}

func largestOf(params map[string]any, names []string) (int, error) {
	for _, name := range names {
		value, ok := params[name]
		if !ok {
			continue
		}
		list, err := sizes("parameters."+name, value)
		if err != nil {
			return 0, err
		}
		return slices.Max(list), nil
	}
	return 1, nil
}

// The rule's memory per GPU, MiB.
const (
	ruleMemoryLarge  = 20000 // 70B, 65B
	ruleMemoryMedium = 12000 // 13B, 7B
	ruleMemoryBase   = 8000
)

// autotunerMemory is the rule's figure for a model's name, and its reason.
func autotunerMemory(name string) (int64, string) {
	if name == "" {
		return ruleMemoryBase, "no model named: base figure"
	}
	found := modelSizes(name)
	for _, step := range []struct {
		mb    int64
		sizes []float64
	}{{ruleMemoryLarge, []float64{70, 65}}, {ruleMemoryMedium, []float64{13, 7}}} {
		for _, s := range found {
			if !s.mixture() && slices.Contains(step.sizes, s.billions) {
				return step.mb, fmt.Sprintf("%s in the model's name", s)
			}
		}
	}
	if len(found) > 0 {
		return ruleMemoryBase, fmt.Sprintf("%s in the model's name: base figure", found[0])
	}
	return ruleMemoryBase, "no size in the model's name: base figure"
}
