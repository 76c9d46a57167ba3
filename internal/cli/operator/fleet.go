package operator

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/queue"
)

// A GPU is idle, by the founding criterion, under 30 % utilisation and under 50 % of its memory.
const (
	idleUtilisation = 30.0
	idleMemoryShare = 0.5
)

// standing is a machine among the others.
type standing struct {
	queue.Machine
	IdleGPUs int `json:"idle_gpus"`
	// Degraded: it has GPUs, and nothing is known of any of them; it is listed in plain order.
	Degraded bool `json:"degraded,omitempty"`
	// Statistics are the founding ones, of its slots.
	Statistics gpuslots.Stats `json:"statistics"`
	best       float64
}

// rank puts the best machine first: one that takes jobs before one that drains, more idle GPUs before fewer, then the
// better score. A machine without metrics cannot be compared: it comes after those with them, by name. Without ranking
// all are in the order they came in, by name.
func rank(all []queue.Machine, ranking bool) []standing {
	ranked := make([]standing, len(all))
	for i, m := range all {
		ranked[i] = stand(m)
	}
	if !ranking {
		return ranked
	}
	slices.SortStableFunc(ranked, func(a, b standing) int {
		return cmp.Or(
			falseFirst(a.Draining, b.Draining),
			falseFirst(a.Degraded, b.Degraded),
			cmp.Compare(b.IdleGPUs, a.IdleGPUs),
			cmp.Compare(b.best, a.best),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return ranked
}

func stand(m queue.Machine) standing {
	s := standing{Machine: m, Degraded: len(m.GPUs) > 0, Statistics: statistics(m.GPUs)}
	for _, g := range m.GPUs {
		if metered(g) {
			s.Degraded = false
		}
		if idle(g) {
			s.IdleGPUs++
		}
		if g.Score != nil && g.State == "ready" {
			s.best = max(s.best, *g.Score)
		}
	}
	return s
}

// statistics counts slots as the machine's own pool does, from what it announces.
func statistics(gpus []queue.GPU) gpuslots.Stats {
	s := gpuslots.Stats{TotalGPUs: len(gpus), PerGPU: make(map[string]gpuslots.GPUStats, len(gpus))}
	for _, g := range gpus {
		s.TotalCapacity += g.Slots
		s.TotalActive += g.Active
		key := strconv.Itoa(g.Index)
		if _, taken := s.PerGPU[key]; taken {
			key = g.UUID // parts of one card have its index
		}
		s.PerGPU[key] = gpuslots.GPUStats{Active: g.Active, Capacity: g.Slots, UtilizationPercent: gpuslots.Percent(g.Active, g.Slots)}
	}
	s.UtilizationPercent = gpuslots.Percent(s.TotalActive, s.TotalCapacity)
	return s
}

func metered(g queue.GPU) bool {
	return g.UtilizationPercent != nil && g.MemoryFreeMB != nil && g.MemoryTotalMB > 0
}

// idle is the founding criterion. A GPU that gets no work (quarantined, dirty) is not idle, whatever its gauges say.
func idle(g queue.GPU) bool {
	if !metered(g) || g.Active > 0 || g.State != "ready" {
		return false
	}
	used := 1 - float64(*g.MemoryFreeMB)/float64(g.MemoryTotalMB)
	return *g.UtilizationPercent < idleUtilisation && used < idleMemoryShare
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
