package nvml

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// ProbeName is the name (argv[0]) a program is started under to be a probe.
const ProbeName = "berth-gpu-probe"

// registered is set by package probe: without it, a program started as a probe would be itself a second time.
var registered atomic.Bool

// RegisterProbe is for package probe alone.
func RegisterProbe() { registered.Store(true) }

// Options are the settings of a source. The zero value of each field means its default.
type Options struct {
	Exe     string   // what to start as a probe; /proc/self/exe, which survives an upgrade of the file
	Library string   // path of libnvidia-ml.so.1; the loader's choice
	Env     []string // added to this process's environment for the probe

	Suspect    time.Duration // 2 s without an answer
	Unreadable time.Duration // 10 s without an answer: the probe is killed
	Backoff    time.Duration // before the first restart, doubled for each one after; 250 ms
	BackoffMax time.Duration // 30 s

	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = silent
}

func (o Options) withDefaults() Options {
	if o.Exe == "" {
		o.Exe = "/proc/self/exe"
	}
	for _, d := range []struct {
		set *time.Duration
		to  time.Duration
	}{
		{&o.Suspect, 2 * time.Second}, {&o.Unreadable, 10 * time.Second},
		{&o.Backoff, 250 * time.Millisecond}, {&o.BackoffMax, 30 * time.Second},
	} {
		if *d.set <= 0 {
			*d.set = d.to
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
