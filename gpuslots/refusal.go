package gpuslots

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berthq/berth/telemetry"
)

// Sentinels. Match them with errors.Is.
var (
	// ErrUnknownGPU is for a UUID that this pool does not have.
	ErrUnknownGPU = errors.New("no such GPU on this machine")
	// ErrNotHeld is for a release of what is not held (any more).
	ErrNotHeld = errors.New("not held")
	// ErrHolderBusy is for a second acquire under a holder's name: a worker that starts a run twice.
	ErrHolderBusy = errors.New("already holds an allocation")
	// ErrLocked is for a GPU whose lock somebody else holds.
	ErrLocked = errors.New("locked by another worker on this machine")
)

// Reason is why there is no room, in the one word people see for a waiting job.
type Reason string

// The reasons of a machine. Those of the queue (Priority, Quota, ...) are given elsewhere.
const (
	Resources    Reason = "Resources"    // slots, CPUs or host memory are taken
	Memory       Reason = "Memory"       // GPU memory is used or promised
	Foreign      Reason = "Foreign"      // processes that are not ours are in the way
	GPUUnhealthy Reason = "GPUUnhealthy" // cards are quarantined or cannot be read
	NeverFits    Reason = "NeverFits"    // not on this machine, even when all is free
	Draining     Reason = "Draining"     // the machine takes no new work
)

// Refusal is the answer no. Its text is made when somebody reads it: most are never read.
type Refusal struct {
	Reason Reason
	text   string
	need   string
	fits   int // cards that would do
	where  string
	has    int // cards there are, for NeverFits
	cards  []cardRefusal
}

// CardRefusal is why one GPU will not do.
type CardRefusal struct {
	UUID   string `json:"uuid"`
	Index  int    `json:"index"`
	Reason Reason `json:"reason"`
	Text   string `json:"text"`
}

type cardRefusal struct {
	device *telemetry.Device // never changed
	v      verdict
}

// shownCards is how many GPUs a sentence names before it says "and N more".
const shownCards = 8

// Error is the whole sentence.
func (r *Refusal) Error() string {
	if r.text != "" {
		return r.text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "needs %s", r.need)
	switch {
	case r.Reason == NeverFits && len(r.cards) == 0:
		fmt.Fprintf(&b, "; %s has %d", r.where, r.has)
	case r.Reason == NeverFits:
		fmt.Fprintf(&b, "; of the %s of %s %d could ever do", count(r.has, "GPU"), r.where, r.fits)
	case r.fits > 0:
		fmt.Fprintf(&b, "; only %s would do", count(r.fits, "GPU"))
	case len(r.cards) > 0:
		b.WriteString("; no GPU would do")
	}
	for i, c := range r.cards {
		if i == shownCards {
			fmt.Fprintf(&b, "; and %d more", len(r.cards)-i)
			break
		}
		fmt.Fprintf(&b, "%s GPU %s %s", separator(i), c.device.Key(), c.v)
	}
	return b.String()
}

func separator(i int) string {
	if i == 0 {
		return ":"
	}
	return ";"
}

// PerGPU is the answer for each GPU that will not do, by index.
func (r *Refusal) PerGPU() []CardRefusal {
	out := make([]CardRefusal, len(r.cards))
	for i, c := range r.cards {
		out[i] = CardRefusal{UUID: c.device.UUID, Index: c.device.Index, Reason: c.v.reason(), Text: c.v.String()}
	}
	return out
}

// Is lets errors.Is(err, &Refusal{Reason: Memory}) match by the word; an empty word matches every refusal.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && (t.Reason == "" || t.Reason == r.Reason)
}

// AsRefusal is the refusal in err, if it is one.
func AsRefusal(err error) (*Refusal, bool) {
	var r *Refusal
	ok := errors.As(err, &r)
	return r, ok
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, text: fmt.Sprintf(format, args...)}
}

// summarise makes one refusal of those of the cards. The word is the one that stands in the way of most of the cards
// that could ever do.
func summarise(need string, fits int, cards []cardRefusal) *Refusal {
	counts := make(map[Reason]int, 5)
	for i := range cards {
		counts[cards[i].v.reason()]++
	}
	reason := NeverFits
	for _, r := range []Reason{Resources, Memory, Foreign, GPUUnhealthy} {
		if counts[r] > 0 && (reason == NeverFits || counts[r] > counts[reason]) {
			reason = r
		}
	}
	return &Refusal{Reason: reason, need: need, fits: fits, cards: cards}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
