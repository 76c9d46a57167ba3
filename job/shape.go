package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// ShapeID is the hash of a normalised Requirements tuple; it is a subject token ([a-z0-9-]), such as
// "g1m24-1a2b3c4d5e6f" (one GPU, 24 GiB) or "c4-9f8e7d6c5b4a" (four CPUs).
type ShapeID string

// Shape is a Requirements tuple normalised (memory and CPUs rounded up to a step) and named by its hash: what a machine
// must have free. A machine that fits a shape fits every job in it, and none is kept out: see stepUp.
type Shape struct {
	ID           ShapeID      `json:"id"`
	Requirements Requirements `json:"requirements"` // normalised; Why, Method, Model, WorldSize empty
}

// Band is the priority band, a subject token. Lower numbers are served first.
type Band string

// The bands, best first: priorities 67-100, 34-66, 0-33.
const (
	BandHigh   Band = "0"
	BandNormal Band = "1"
	BandLow    Band = "2"
)

// BandOf is the band of a priority from 0 to 100.
func BandOf(priority int) Band {
	switch {
	case priority >= 67:
		return BandHigh
	case priority >= 34:
		return BandNormal
	}
	return BandLow
}

// Lane is one queue of interchangeable jobs: priority band x shape x project.
type Lane struct {
	Band    Band
	Shape   ShapeID
	Project string
}

// ShapeOf is the shape of requirements. Equal wishes written differently have one shape.
func ShapeOf(r Requirements) Shape {
	n := normalise(r)
	data, err := json.Marshal(n)
	if err != nil {
		panic("job: Requirements hold only text and numbers: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return Shape{ID: ShapeID(shapePrefix(n) + "-" + hex.EncodeToString(sum[:6])), Requirements: n}
}

func shapePrefix(n Requirements) string {
	if n.GPUs == 0 {
		return fmt.Sprintf("c%d", n.CPUs)
	}
	if n.GPUMemoryMB == 0 {
		return fmt.Sprintf("g%d", n.GPUs)
	}
	return fmt.Sprintf("g%dm%d", n.GPUs, (n.GPUMemoryMB+1023)/1024)
}

// normalise drops what no machine looks at, sorts lists, and rounds.
func normalise(r Requirements) Requirements {
	n := Requirements{
		GPUs: max(r.GPUs, 0), Machine: r.Machine, Constraints: r.Constraints, Container: r.Container,
		CPUs:       int(stepUp(max(int64(r.CPUs), 0), 64)), // exact up to 128
		MemoryMB:   stepUp(max(r.MemoryMB, 0), 32),
		Frameworks: normaliseList(r.Frameworks, strings.ToLower),
	}
	if len(n.Constraints) == 0 {
		n.Constraints = nil
	}
	if n.GPUs == 0 {
		return n
	}
	n.GPUMemoryMB = cardMemoryUp(max(r.GPUMemoryMB, 0))
	n.Share = Exclusive
	if r.IsShared() {
		n.Share, n.Slots = Shared, max(r.Slots, 1)
	}
	n.GPUModels = normaliseList(r.GPUModels, strings.ToLower)
	n.MinCapability = r.MinCapability
	n.GPUIDs = normaliseList(r.GPUIDs, func(s string) string { return s })
	n.Balanced = r.Balanced && n.GPUs > 1
	return n
}

func normaliseList(list []string, form func(string) string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = form(strings.TrimSpace(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// stepUp rounds v up to a step of its octave's 1/parts. The loss is at most 1/parts of what is asked, so a machine is
// kept from a job it could just hold only when the job wants nearly all of it and the machine's size is no multiple of
// the step. Powers of two would keep a 64 GB machine (62 GiB usable) from every job above 32 GiB.
func stepUp(v, parts int64) int64 {
	if v <= parts {
		return v
	}
	step := int64(1) << (bits.Len64(uint64(v-1)) - 1) / parts
	return (v + step - 1) / step * step
}

// cardMemoryUp rounds GPU memory up to 1/64 of its octave, but never past the size of a real card: whoever asks for
// what a card has, to the MiB, gets the shape that card can hold.
func cardMemoryUp(mb int64) int64 {
	up := stepUp(mb, 64)
	i, _ := slices.BinarySearchFunc(cards, mb, func(c card, mb int64) int { return int(c.memoryMB - mb) })
	if i < len(cards) && cards[i].memoryMB < up {
		return cards[i].memoryMB
	}
	return up
}
