package estimator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berthq/berth/estimator/launch"
)

// ErrRefused marks a combination that the engine itself, or Berth, never runs; the sentence names the rule.
var ErrRefused = errors.New("refused")

// ranks are the parallel sizes as the memory computation needs them.
type ranks struct {
	tp, pp int
	dp     int // whole replicas, or attention replicas inside tp when attentionDP
	dcp    int // splits the KV cache of one sequence inside tp
	cp     int // splits prefill: vLLM's pcp, SGLang's attn-cp, TensorRT-LLM's cp
	ep     int // how many ranks share the experts; 1: experts are sharded as tensors
	// moeTP shards each expert beside ep.
	moeTP       int
	attentionDP bool // attention weights and KV whole on every rank
}

func (r ranks) normal() ranks {
	for _, p := range []*int{&r.tp, &r.pp, &r.dp, &r.dcp, &r.cp, &r.ep} {
		*p = max(1, *p)
	}
	return r
}

// point is one combination of the sizes an engine was given.
type point struct {
	tp, pp, dp, cp, dcp, ep, moeTP, moeDP int
}

// engineRule is how one engine counts its GPUs.
type engineRule struct {
	title string
	world func(*settings, point) (world, error)
}

var engineRules = map[launch.Program]engineRule{
	launch.VLLM:     {"vLLM", vllmWorld},
	launch.SGLang:   {"SGLang", sglangWorld},
	launch.TensorRT: {"TensorRT-LLM", tensorrtWorld},
}

// The names each size goes by, flags and parameters alike, by canonical name; the first that is set counts.
var (
	namesTP    = []string{"tensor-parallel-size", "tp-size", "tp", "tensor-parallel"}
	namesPP    = []string{"pipeline-parallel-size", "pp-size", "pp", "pipeline-parallel"}
	namesDP    = []string{"data-parallel-size", "dp-size", "dp", "data-parallel"}
	namesDCP   = []string{"decode-context-parallel-size", "dcp-size", "dcp"}
	namesCP    = []string{"prefill-context-parallel-size", "pcp-size", "pcp", "attention-context-parallel-size", "attn-cp-size", "attn-cp", "context-parallel-size", "cp-size", "cp"}
	namesEP    = []string{"expert-parallel-size", "ep-size", "ep", "moe-expert-parallel-size", "moe-ep-size"}
	namesMoeTP = []string{"moe-tensor-parallel-size", "moe-tp-size"}
	namesMoeDP = []string{"moe-data-parallel-size", "moe-dp-size"}
)

// maxPoints bounds how many combinations of a sweep are looked at.
const maxPoints = 4096

// engineWorld is the largest world among the points of the sweep that the engine accepts. When it accepts none, its
// refusal of the last is the answer.
func engineWorld(engine launch.Program, s *settings) (world, error) {
	rule := engineRules[engine]
	points, err := enginePoints(s)
	if err != nil {
		return world{}, err
	}
	var best world
	var refused error
	for _, p := range points {
		w, err := rule.world(s, p)
		if err != nil {
			refused = err
			continue
		}
		if w.gpus > maxWorld {
			return world{}, fmt.Errorf("%w: %s: %s is %d GPUs, more than any fleet has", ErrRefused, rule.title, w.say(), w.gpus)
		}
		if w.gpus > best.gpus {
			best = w
		}
	}
	if best.gpus == 0 {
		return world{}, refused
	}
	best.text = best.say()
	return best, nil
}

func enginePoints(s *settings) ([]point, error) {
	points := []point{{1, 1, 1, 1, 1, 0, 0, 1}}
	for _, d := range []struct {
		names []string
		set   func(*point, int)
	}{
		{namesTP, func(p *point, n int) { p.tp = n }},
		{namesPP, func(p *point, n int) { p.pp = n }},
		{namesDP, func(p *point, n int) { p.dp = n }},
		{namesCP, func(p *point, n int) { p.cp = n }},
		{namesDCP, func(p *point, n int) { p.dcp = n }},
		{namesEP, func(p *point, n int) { p.ep = n }},
		{namesMoeTP, func(p *point, n int) { p.moeTP = n }},
		{namesMoeDP, func(p *point, n int) { p.moeDP = n }},
	} {
		if d.names[0] == "expert-parallel-size" && s.on("ep") && s.flags["ep"] == "" {
			continue // `--ep` as a switch says that experts are spread, not over how many
		}
		list, err := s.sizes(d.names...)
		if err != nil {
			return nil, err
		}
		if list == nil {
			continue
		}
		slices.Sort(list)
		list = slices.Compact(list)
		if len(points)*len(list) > maxPoints {
			list = list[len(list)-1:]
		}
		next := make([]point, 0, len(points)*len(list))
		for _, p := range points {
			for _, n := range list {
				q := p
				d.set(&q, n)
				next = append(next, q)
			}
		}
		points = next
	}
	return points, nil
}

func refuse(engine, rule, format string, args ...any) error {
	return fmt.Errorf("%s %w: %s (its rule: %s)", engine, ErrRefused, fmt.Sprintf(format, args...), rule)
}

// oneMachine refuses a launch over several machines.
func oneMachine(s *settings, names ...string) error {
	n, ok, err := s.count(names...)
	if err != nil || !ok || n <= 1 {
		return err
	}
	return fmt.Errorf("%w: %d machines; one job on several machines is not in this version", ErrRefused, n)
}
