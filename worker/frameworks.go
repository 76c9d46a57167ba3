package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/frameworks"
)

// FrameworkProbe asks one interpreter's frameworks which GPUs they see; (*frameworks.Prober).Probe is one. Without
// names it asks those that are cheap to ask.
type FrameworkProbe func(ctx context.Context, devices []telemetry.Device, names ...string) (frameworks.Report, error)

// frameworkBooks are the answers so far. Until a framework has been asked, jobs that require it wait.
type frameworkBooks struct {
	mu       sync.Mutex
	surveyed bool
	sees     map[string][]string // framework -> UUIDs; nil: every GPU, as far as is known
	asked    map[string]bool
	warnings []string
	wanted   chan string // a framework that is asked only when a job requires it
}

// known reports whether all of them have been asked or are not there, and asks for those that have not been.
func (b *frameworkBooks) known(names []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := true
	for _, name := range names {
		_, installed := b.sees[name]
		if b.surveyed && (b.asked[name] || !installed) {
			continue
		}
		all = false
		select {
		case b.wanted <- name:
		default: // others are being asked; the lanes are looked at again then
		}
	}
	return all
}

// seen reports whether a framework sees a GPU here, as far as is known.
func (b *frameworkBooks) seen(name, uuid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.surveyed {
		return true // nothing is known against it
	}
	sees, installed := b.sees[name]
	return installed && (sees == nil || slices.Contains(sees, uuid))
}

// enter takes an interpreter's report. A framework that several have sees what one of them sees.
func (b *frameworkBooks) enter(r frameworks.Report, blind bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sees == nil {
		b.sees, b.asked = map[string][]string{}, map[string]bool{}
	}
	for _, name := range r.Installed {
		if _, there := b.sees[name]; !there {
			b.sees[name] = nil
		}
		b.asked[name] = b.asked[name] || blind
	}
	for name, uuids := range r.Devices() {
		both := append(slices.Clone(b.sees[name]), uuids...)
		slices.Sort(both)
		b.sees[name] = append([]string{}, slices.Compact(both)...) // never nil: nil sees all
		b.asked[name] = true
	}
}

// finish ends a round of asking. A framework that was asked for by name and gave no answer sees nothing: asking for ever
// would bring no other.
func (b *frameworkBooks) finish(names, warnings []string) gpuslots.Frameworks {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.surveyed = true
	for _, name := range names {
		if _, installed := b.sees[name]; installed && !b.asked[name] {
			b.sees[name], b.asked[name] = []string{}, true
		}
	}
	for _, w := range warnings {
		if !slices.Contains(b.warnings, w) {
			b.warnings = append(b.warnings, w)
		}
	}
	return maps.Clone(gpuslots.Frameworks(b.sees))
}

// report is what the fleet hears: nothing before the first answers.
func (b *frameworkBooks) report() (sees map[string][]string, warnings []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.surveyed {
		return nil, nil
	}
	sees = map[string][]string{}
	for name, uuids := range b.sees {
		sees[name] = slices.Clone(uuids) // an empty list stays one: it sees none
	}
	return sees, slices.Clone(b.warnings)
}

// allFrameworks is what the pool believes before anything was asked: a machine that is finding out must not say
// "never". Until then mayTake keeps jobs that require one away.
func allFrameworks() gpuslots.Frameworks {
	all := gpuslots.Frameworks{}
	for _, name := range frameworks.All() {
		all[name] = nil
	}
	return all
}

// mayTake reports whether what a job requires of frameworks has been asked.
func (w *Worker) mayTake(r job.Requirements) bool {
	return len(r.Frameworks) == 0 || w.frameworks.known(r.Frameworks)
}

// askFrameworks finds out which frameworks see which GPUs, beside everything else: an import takes seconds, and one
// that hangs is somebody else's minute. What is dear to ask is asked when the first job requires it.
func (w *Worker) askFrameworks(ctx context.Context) {
	w.probeFrameworks(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-w.frameworks.wanted:
			if !w.frameworks.done(name) {
				w.probeFrameworks(ctx, name)
			}
		}
	}
}

func (b *frameworkBooks) done(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, installed := b.sees[name]
	return b.asked[name] || b.surveyed && !installed
}

func (w *Worker) probeFrameworks(ctx context.Context, names ...string) {
	blind := w.source.Name() == "sim" || len(w.devices) == 0 // no framework could see what is simulated
	devices := w.devices
	if blind {
		devices = nil
	}
	var warnings []string
	for _, probe := range w.cfg.Frameworks {
		began := w.cfg.Now()
		r, err := probe(ctx, devices, names...)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, frameworks.ErrNoPython) {
			w.log.Info("frameworks_not_asked", "err", err)
			continue
		}
		if err != nil {
			w.log.Warn("frameworks_not_asked", "err", err, "consequence", "no job that requires one of this Python runs here")
			continue
		}
		w.frameworks.enter(r, blind)
		missing := frameworks.Missing(devices, r)
		for _, text := range missing {
			w.log.Warn("framework_sees_less", "why", text)
		}
		warnings = append(warnings, missing...)
		w.log.Info("frameworks", "python", r.Interpreter, "installed", r.Installed, "sees", counts(r), "took", w.cfg.Now().Sub(began).Round(time.Millisecond))
	}
	w.pool.SetFrameworks(w.frameworks.finish(names, warnings))
	w.tell()
}

// counts are the numbers of GPUs seen, for the log.
func counts(r frameworks.Report) map[string]int {
	out := map[string]int{}
	for name, seen := range r.Frameworks {
		out[name] = len(seen.UUIDs)
	}
	return out
}
