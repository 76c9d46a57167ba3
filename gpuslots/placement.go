package gpuslots

import (
	"cmp"
	"fmt"
)

// Placement is the order in which fitting cards are taken.
type Placement string

// The placements.
const (
	PlaceScore   Placement = "score"   // best score, then least loaded
	PlacePack    Placement = "pack"    // fill cards that are in use already
	PlaceSpread  Placement = "spread"  // least loaded, then best score
	PlaceBestFit Placement = "bestfit" // least memory left over
)

// ParsePlacement reads the name of a placement.
func ParsePlacement(s string) (Placement, error) {
	switch p := Placement(s); p {
	case PlaceScore, PlacePack, PlaceSpread, PlaceBestFit:
		return p, nil
	}
	return "", fmt.Errorf("placement %q: want score, pack, spread or bestfit", s)
}

// Candidate is one card that fits, as far as the choice among them needs it.
type Candidate struct {
	Index     int
	Score     float64 // 0..1
	FreeMB    int64   // before this job
	Load      float64 // share of its slots that are taken, 0..1
	Avoided   bool    // the request would rather have another
	Preferred bool    // the request would rather have this one
	Foreign   bool    // foreign processes are there, and the policy is avoid
}

// Compare orders two candidates; negative: a is to be taken first. Cards to be avoided come last under every
// placement, those that are preferred first among the others; equals go by index.
func (p Placement) Compare(a, b *Candidate) int {
	if a.Avoided != b.Avoided || a.Foreign != b.Foreign {
		return cmp.Or(compareBool(a.Avoided, b.Avoided), compareBool(a.Foreign, b.Foreign))
	}
	if a.Preferred != b.Preferred {
		return compareBool(b.Preferred, a.Preferred)
	}
	var first, second int
	switch p {
	case PlacePack:
		first, second = cmp.Compare(b.Load, a.Load), cmp.Compare(a.FreeMB, b.FreeMB)
	case PlaceSpread:
		first, second = cmp.Compare(a.Load, b.Load), cmp.Compare(b.Score, a.Score)
	case PlaceBestFit:
		first, second = cmp.Compare(a.FreeMB, b.FreeMB), cmp.Compare(b.Load, a.Load)
	default:
		first, second = cmp.Compare(b.Score, a.Score), cmp.Compare(a.Load, b.Load)
	}
	switch {
	case first != 0:
		return first
	case second != 0:
		return second
	}
	return cmp.Compare(a.Index, b.Index)
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
