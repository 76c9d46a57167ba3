package gpuslots

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

// wish is a request prepared for looking at many cards.
type wish struct {
	req     job.Requirements
	now     time.Time
	needMB  int64
	slots   int
	shared  bool
	models  []string
	minCap  capability
	avoid   []string
	prefer  []string
	exclude []string
	asked   string // the last name looked at by likes, and its answer
	liked   bool
}

func newWish(r Request, now time.Time) (wish, error) {
	req := r.Req
	w := wish{
		req: req, now: now, needMB: req.GPUMemoryMB, slots: max(req.Slots, 1), shared: req.IsShared(),
		models: req.GPUModels, avoid: r.Avoid, prefer: r.Prefer, exclude: r.Exclude,
	}
	if req.GPUs < 0 || req.GPUMemoryMB < 0 || req.CPUs < 0 || req.MemoryMB < 0 || req.Slots < 0 {
		return w, fmt.Errorf("requirements: GPUs, memory, CPUs and slots cannot be negative")
	}
	if req.MinCapability != "" {
		var ok bool
		if w.minCap, ok = parseCapability(req.MinCapability); !ok {
			return w, fmt.Errorf("requirements: %q is not a compute capability: want for example 8.0", req.MinCapability)
		}
	}
	return w, nil
}

// need says what is asked for, for the beginning of a refusal.
func (w wish) need() string {
	req := w.req
	var b strings.Builder
	if len(w.models) > 0 {
		fmt.Fprintf(&b, "%d %s", req.GPUs, strings.Join(w.models, " or "))
	} else {
		b.WriteString(count(req.GPUs, "GPU"))
	}
	if w.needMB > 0 {
		fmt.Fprintf(&b, " with %d MB free", w.needMB)
		if req.GPUs > 1 {
			b.WriteString(" each")
		}
	}
	switch {
	case w.shared && w.slots > 1:
		fmt.Fprintf(&b, ", shared (%d slots)", w.slots)
	case w.shared:
		b.WriteString(", shared")
	}
	if req.MinCapability != "" {
		fmt.Fprintf(&b, ", compute capability %s or better", req.MinCapability)
	}
	if len(req.GPUIDs) > 0 {
		fmt.Fprintf(&b, ", from %s", strings.Join(req.GPUIDs, " "))
	}
	if len(req.Frameworks) > 0 {
		fmt.Fprintf(&b, ", seen by %s", strings.Join(req.Frameworks, " and "))
	}
	if req.Balanced {
		b.WriteString(", balanced")
	}
	return b.String()
}

// ever says whether a card could serve the wish when it is free.
func (p *Pool) ever(c *card, w *wish, v *verdict) bool {
	if len(w.models) > 0 && !w.likes(c.device.Name) {
		return v.no(whyModel, verdict{text: c.device.Name})
	}
	if w.minCap != (capability{}) && (!c.capabilityKnown || c.capability.less(w.minCap)) {
		return v.no(whyCapability, verdict{text: c.device.ComputeCapability})
	}
	if len(w.req.GPUIDs) > 0 && !slices.ContainsFunc(w.req.GPUIDs, func(id string) bool { return matchID(id, c.device) }) {
		return v.no(whyID, verdict{})
	}
	for _, f := range w.req.Frameworks {
		if sees := p.opts.Frameworks[f]; sees != nil && !slices.Contains(sees, c.device.UUID) {
			return v.no(whyFramework, verdict{text: f})
		}
	}
	if most := c.totalMB - c.keptMB - p.opts.ReserveMemoryMB; w.needMB > 0 && w.needMB > most {
		return v.no(whyTooSmall, verdict{a: max(most, 0), b: w.needMB})
	}
	if w.shared && w.slots > c.slots {
		return v.no(whyTooFewSlots, verdict{a: int64(c.slots), b: int64(w.slots)})
	}
	return true
}

// likes reports whether a card of that name is one of the models asked for. A machine's cards mostly share one name,
// so the last answer is kept.
func (w *wish) likes(name string) bool {
	if w.asked == "" || w.asked != name {
		w.asked = name
		w.liked = slices.ContainsFunc(w.models, func(m string) bool { return matchModel(m, name) })
	}
	return w.liked
}

// everMachine says why this machine could not serve the wish, whatever its cards are like.
func (p *Pool) everMachine(w *wish) error {
	if err := p.everHost(&w.req); err != nil || w.req.GPUs == 0 {
		return err
	}
	if len(p.cards) == 0 {
		return refuse(NeverFits, "needs %s; %s has no GPU", w.need(), orThis(p.opts.Machine))
	}
	for _, id := range w.req.GPUIDs {
		if !slices.ContainsFunc(p.cards, func(c *card) bool { return matchID(id, c.device) }) {
			return refuse(NeverFits, "wants GPU %s, which %s does not have (it has %s)", id, orThis(p.opts.Machine), p.keys())
		}
	}
	return nil
}

func (p *Pool) everHost(req *job.Requirements) error {
	o := &p.opts
	if req.Machine != "" && req.Machine != o.Machine {
		return refuse(NeverFits, "is for machine %s, this is %s", req.Machine, orThis(o.Machine))
	}
	for _, k := range sortedKeys(req.Constraints) {
		switch have, labelled := o.Labels[k]; {
		case !labelled:
			return refuse(NeverFits, "wants %s=%s; %s has no label %s", k, req.Constraints[k], orThis(o.Machine), k)
		case have != req.Constraints[k]:
			return refuse(NeverFits, "wants %s=%s; %s has %s=%s", k, req.Constraints[k], orThis(o.Machine), k, have)
		}
	}
	for _, f := range req.Frameworks {
		if _, there := o.Frameworks[f]; !there {
			return refuse(NeverFits, "wants %s, which was not found on %s", f, orThis(o.Machine))
		}
	}
	if req.Container && o.NoContainers != "" {
		return refuse(NeverFits, "has an image; %s runs no containers: %s", orThis(o.Machine), o.NoContainers)
	}
	if o.CPUs > 0 && req.CPUs > o.CPUs {
		return refuse(NeverFits, "needs %s; %s has %d", count(req.CPUs, "CPU"), orThis(o.Machine), o.CPUs)
	}
	if o.MemoryMB > 0 && req.MemoryMB > o.MemoryMB {
		return refuse(NeverFits, "needs %d MB of host memory; %s has %d MB", req.MemoryMB, orThis(o.Machine), o.MemoryMB)
	}
	return nil
}

func orThis(machine string) string {
	if machine == "" {
		return "this machine"
	}
	return machine
}

// matchModel reports whether a model as people write it (A100, RTX 4090, a100-80gb) names the card. Words must be
// whole: A10 is no A100.
func matchModel(want, name string) bool {
	have := words(name)
	wanted := words(want)
	if len(wanted) == 0 {
		return false
	}
	if !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(have, w) }) {
		return true
	}
	squeezed := strings.Join(wanted, "")
	for from := range have {
		for to := from + 1; to <= len(have); to++ {
			if strings.Join(have[from:to], "") == squeezed {
				return true
			}
		}
	}
	return false
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// matchID reports whether id is the device's UUID, the beginning of it (eight characters of its own at least), its
// index, or index.instance for a MIG device.
func matchID(id string, d telemetry.Device) bool {
	if id == d.UUID || id == d.Key() {
		return true
	}
	const enough = len("GPU-") + 8
	return len(id) >= enough && strings.HasPrefix(d.UUID, id)
}

type capability struct{ major, minor int }

func (c capability) less(o capability) bool {
	return c.major < o.major || (c.major == o.major && c.minor < o.minor)
}

// parseCapability reads "9.0" or "8".
func parseCapability(s string) (capability, bool) {
	major, minor, dotted := strings.Cut(strings.TrimSpace(s), ".")
	if !dotted {
		minor = "0"
	}
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	return capability{int(a), int(b)}, errA == nil && errB == nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
