package gpuslots

import "slices"

// balanceRatio: the least free memory in a balanced gang is at least this part of the most.
const balanceRatio = 0.8

// shortlist is how many candidates the search for a balanced gang looks at before it takes the trouble of all.
const shortlist = 64

// Choose picks n of the candidates: the first n in the order of the placement when their free memory is balanced
// (the least at least 80 % of the most), else the first balanced set, else the first n after all; with insist, none.
// It returns positions in cands, best first; nil when there is no such set.
func Choose(cands []Candidate, n int, placement Placement, insist bool) []int {
	if n <= 0 || len(cands) < n {
		return nil
	}
	best := first(cands, n, placement)
	if n == 1 || balanced(cands, best) {
		return best
	}
	order := first(cands, max(shortlist, 4*n), placement)
	if set := balancedSet(cands, order, n); set != nil {
		return set
	}
	if !insist {
		return best
	}
	if len(order) == len(cands) {
		return nil
	}
	return balancedSet(cands, first(cands, len(cands), placement), n)
}

// first is the positions of the k first candidates, in order.
func first(cands []Candidate, k int, placement Placement) []int {
	k = min(k, len(cands))
	compare := func(a, b int) int { return placement.Compare(&cands[a], &cands[b]) }
	if k > 16 {
		all := make([]int, len(cands))
		for i := range all {
			all[i] = i
		}
		slices.SortFunc(all, compare)
		return all[:k]
	}
	best := make([]int, 0, k+1)
	for i := range cands {
		if len(best) == k && compare(i, best[k-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, i, compare)
		best = slices.Insert(best, at, i)
		best = best[:min(len(best), k)]
	}
	return best
}

// balancedSet looks for the n positions of order, earliest as a whole, whose memory is balanced: each candidate in
// turn is the one with the most memory, and the first n that may stand beside it are its set.
func balancedSet(cands []Candidate, order []int, n int) []int {
	var best []int
	bestCost := -1
	set := make([]int, 0, n)
	for _, most := range order {
		top := cands[most].FreeMB
		set = set[:0]
		cost := 0
		for place, i := range order {
			free := cands[i].FreeMB
			if free > top || float64(free) < balanceRatio*float64(top) {
				continue
			}
			set = append(set, i)
			cost += place
			if len(set) == n {
				break
			}
		}
		if len(set) == n && (bestCost < 0 || cost < bestCost) {
			best, bestCost = slices.Clone(set), cost
		}
	}
	return best
}

func balanced(cands []Candidate, set []int) bool {
	least, most := cands[set[0]].FreeMB, cands[set[0]].FreeMB
	for _, i := range set[1:] {
		least, most = min(least, cands[i].FreeMB), max(most, cands[i].FreeMB)
	}
	return float64(least) >= balanceRatio*float64(most)
}
