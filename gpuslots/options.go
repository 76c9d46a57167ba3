package gpuslots

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
)

// ForeignPolicy says what a process that is not ours means for a card.
type ForeignPolicy string

// The policies. The memory that foreign processes hold is never promised to anybody, whatever the policy.
const (
	ForeignIgnore ForeignPolicy = "ignore" // they do not matter
	ForeignAvoid  ForeignPolicy = "avoid"  // cards without them first; none on which they use more than MaxUtil
	ForeignBlock  ForeignPolicy = "block"  // one foreign process closes a card
)

// Defaults of Options.
const (
	DefaultMaxUtil = 50.0
	DefaultSettle  = 5 * time.Second
	DefaultWarmup  = time.Minute
	// MaxReadingAge is how old a reading may be on which a GPU is granted; see Pool.Stale.
	MaxReadingAge = time.Second
)

// Options are the settings of a Pool. The zero value of each means its default.
type Options struct {
	Devices     []telemetry.Device // the GPUs this pool gives out; none: CPU jobs only
	SlotsPerGPU int                // 1; see SlotsAuto
	Weights     Weights            // 0.6 memory, 0.4 idle
	MaxUtil     float64            // percent that foreign processes may use of a card; 50
	MinScore    float64            // 0
	Placement   Placement          // score

	Foreign       ForeignPolicy // avoid
	ForeignIgnore []string      // command names (globs allowed) that never count as foreign; nil: Xorg, gnome-shell

	ReserveMemoryMB int64         // kept free on every GPU
	Settle          time.Duration // 5 s; negative: none
	Warmup          time.Duration // 60 s; negative: none

	// LockDir is the one folder of this machine for GPU locks, the same for every worker on it, on a local file
	// system. "": no locks, for a pool whose GPUs are only numbers.
	LockDir string

	Machine    string
	Labels     map[string]string
	Frameworks Frameworks
	// NoContainers says why no job with an image can run here; "": they can.
	NoContainers string
	CPUs         int   // 0: not counted
	CPUJobs      int   // runs without a GPU at one time; 0: as many as CPUs (no limit when CPUs is 0)
	MemoryMB     int64 // host memory; 0: not counted

	Now func() time.Time // the clock for Release and for requests without a time; nil: time.Now
}

// Frameworks says which GPUs (UUIDs) each framework really sees. A nil list means all of them.
type Frameworks map[string][]string

// SlotsAuto is the founding rule for slots per GPU: CPUs divided by GPUs, rounded up, at least 1.
func SlotsAuto(cpus, gpus int) int {
	if gpus <= 0 || cpus <= 0 {
		return 1
	}
	return (cpus + gpus - 1) / gpus
}

func (o Options) withDefaults() Options {
	if o.SlotsPerGPU == 0 {
		o.SlotsPerGPU = 1
	}
	if o.Weights == (Weights{}) {
		o.Weights = DefaultWeights
	}
	if o.MaxUtil == 0 {
		o.MaxUtil = DefaultMaxUtil
	}
	if o.Placement == "" {
		o.Placement = PlaceScore
	}
	if o.Foreign == "" {
		o.Foreign = ForeignAvoid
	}
	if o.ForeignIgnore == nil {
		o.ForeignIgnore = []string{"Xorg", "gnome-shell"}
	}
	o.Settle = orDefault(o.Settle, DefaultSettle)
	o.Warmup = orDefault(o.Warmup, DefaultWarmup)
	if o.CPUJobs == 0 {
		o.CPUJobs = o.CPUs
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return max(d, 0)
}

// check names every setting that cannot work.
func (o Options) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.SlotsPerGPU < 1 || o.SlotsPerGPU > maxSlots {
		wrong("slots per GPU: %d is not between 1 and %d", o.SlotsPerGPU, maxSlots)
	}
	if err := o.Weights.check(); err != nil {
		errs = append(errs, err)
	}
	if math.IsNaN(o.MaxUtil) || o.MaxUtil < 0 || o.MaxUtil > 100 {
		wrong("max-util: %v is not a percentage", o.MaxUtil)
	}
	if math.IsNaN(o.MinScore) || o.MinScore < 0 || o.MinScore > 1 {
		wrong("min-score: %v is not between 0 and 1", o.MinScore)
	}
	if _, err := ParsePlacement(string(o.Placement)); err != nil {
		errs = append(errs, err)
	}
	if _, err := ParseForeignPolicy(string(o.Foreign)); err != nil {
		errs = append(errs, err)
	}
	for _, pattern := range o.ForeignIgnore {
		if _, err := path.Match(pattern, ""); err != nil {
			wrong("foreign-ignore: %q is not a pattern: %w", pattern, err)
		}
	}
	if o.ReserveMemoryMB < 0 || o.CPUs < 0 || o.CPUJobs < 0 || o.MemoryMB < 0 {
		wrong("reserved memory, CPUs and host memory cannot be negative")
	}
	seen := map[string]bool{}
	for _, d := range o.Devices {
		switch {
		case d.UUID == "" || strings.ContainsAny(d.UUID, "/\x00") || strings.HasPrefix(d.UUID, "."):
			wrong("GPU %d: %q cannot be a GPU's UUID", d.Index, d.UUID)
		case seen[d.UUID]:
			wrong("GPU %d: UUID %s is there twice", d.Index, d.UUID)
		}
		seen[d.UUID] = true
	}
	return errors.Join(errs...)
}

// ParseForeignPolicy reads ignore, avoid or block.
func ParseForeignPolicy(s string) (ForeignPolicy, error) {
	switch p := ForeignPolicy(s); p {
	case ForeignIgnore, ForeignAvoid, ForeignBlock:
		return p, nil
	}
	return "", fmt.Errorf("foreign policy %q: want ignore, avoid or block", s)
}
