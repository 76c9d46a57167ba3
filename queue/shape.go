package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/berthq/berth/job"
)

// defaultPriority is the priority of a job that names none.
const defaultPriority = 50

// bandOf is the priority's band: 67-100, 34-66, 0-33.
func bandOf(priority int) job.Band {
	switch {
	case priority >= 67:
		return job.BandHigh
	case priority >= 34:
		return job.BandNormal
	}
	return job.BandLow
}

// cardMB are memory sizes of real cards, as their driver reports them. They are edges of the memory buckets, so that
// rounding a request up never carries it past a card it would have fitted.
var cardMB = []int64{
	6144, 8188, 8192, 10240, 11264, 12282, 12288, 15109, 15360, 16376, 16384, 20470, 22731, 23028, 24564, 24576, 32607,
	32768, 40536, 40960, 46068, 49140, 65536, 81559, 81920, 97871, 143771, 183359, 196608, 294912,
}

// memoryEdge rounds a GPU memory request up to the edge of its bucket: a sixteenth of its power of two, or the size of
// a real card that lies before it.
func memoryEdge(mb int64) int64 {
	if mb <= 0 {
		return 0
	}
	step := max(int64(1)<<max(bits.Len64(uint64(mb))-4, 0), 256)
	edge := (mb + step - 1) / step * step
	for _, card := range cardMB {
		if mb <= card && card < edge {
			return card
		}
	}
	return edge
}

// floorPowerOfTwo keeps shapes few: a machine with less can never fit, one with more is asked by the exact number.
func floorPowerOfTwo[T int | int64](n T) T {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// shapeOf normalises requirements and names the result by its hash.
func shapeOf(r job.Requirements) job.Shape {
	n := job.Requirements{
		GPUs: r.GPUs, MinCapability: r.MinCapability, Machine: r.Machine,
		CPUs: floorPowerOfTwo(r.CPUs), MemoryMB: floorPowerOfTwo(r.MemoryMB),
		Frameworks: sorted(r.Frameworks, strings.ToLower), GPUModels: sorted(r.GPUModels, strings.ToUpper),
		Constraints: r.Constraints,
	}
	if r.GPUs > 0 {
		n.GPUMemoryMB, n.Balanced, n.GPUIDs = memoryEdge(r.GPUMemoryMB), r.Balanced, sorted(r.GPUIDs, strings.TrimSpace)
		if r.IsShared() {
			n.Share, n.Slots = job.Shared, max(r.Slots, 1)
		}
	}
	body, err := json.Marshal(n) // map keys are sorted
	if err != nil {
		panic("queue: requirements that are no JSON: " + err.Error()) // strings, numbers and maps of them always are
	}
	sum := sha256.Sum256(body)
	return job.Shape{ID: job.ShapeID(shapeName(n) + "-" + hex.EncodeToString(sum[:5])), Requirements: n}
}

// shapeName is the part of a shape's name that people read.
func shapeName(n job.Requirements) string {
	switch {
	case n.GPUs == 0:
		return "cpu"
	case n.Share == job.Shared:
		return fmt.Sprintf("s%d", n.GPUs)
	}
	return fmt.Sprintf("g%d", n.GPUs)
}

func sorted(in []string, form func(string) string) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, form(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
