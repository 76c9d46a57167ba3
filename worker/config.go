package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

// ErrDetach as the cause of claimCtx says: take no more, leave what runs to its shims, and return. The next worker on
// the same store adopts the runs.
var ErrDetach = errors.New("detach: runs go on without the worker")

// OpenSource opens where GPU readings come from. holders tells a simulated source which processes hold which GPU.
type OpenSource func(ctx context.Context, holders func() map[string][]int) (telemetry.Source, error)

// Config is what a worker is made of. The zero value of an optional field means its default.
type Config struct {
	Machine string // this machine's name in the fleet
	Version string
	Store   string // folder of runs in progress, this worker's alone

	Queue  *queue.Queue // stays the caller's, who closes it after Run
	Source OpenSource   // the worker closes what it opens

	// Slots are the pool's settings; the worker fills in the devices and the machine.
	Slots gpuslots.Options
	// SlotsAuto sets slots per GPU to ceil(CPUs / GPUs), the founding rule.
	SlotsAuto bool

	// GPUs limits the worker to some of the machine's GPUs; nil: all.
	GPUs func(telemetry.Device) bool
	// Projects this worker serves; none: all.
	Projects []string
	// Frameworks are the interpreters asked for what Python frameworks see; none: a job that requires one never runs here.
	Frameworks []FrameworkProbe
	// Containers is how jobs with an image are run; nil: they are not.
	Containers *Containers
	// NoRanking asks for every job with the same priority, so that it goes to any machine with room.
	NoRanking bool

	// Users says as whom each user's jobs run, on a worker that can change; nil: all as the worker itself.
	Users *UserMap
	// AllowRoot lets a worker that is root and has no Users run jobs as root. Without it such a worker is refused.
	AllowRoot bool
	// Secrets is the folder of the files that hold the values of secrets; "": there are none.
	Secrets string

	// Environ is what every run's environment starts from (HOME, USER, PATH …).
	Environ []string

	SampleEvery time.Duration // between samples of a run, unless the job says otherwise; 1 s
	OpenGPUs    bool          // let runs open the device files of GPUs that they were not given
	Grace       time.Duration // between the stop signal and the kill; 30 s
	DrainFor    time.Duration // how long a drain waits before it stops the runs; 0: as long as they take
	LogCap      int64         // bytes of output kept of one run; 1 GiB
	// MaxProcesses is the most one run may have; 0: DefaultMaxProcesses where the kernel counts them for every run at no
	// cost (cgroup v2), else no limit.
	MaxProcesses int
	// RestoreAfter is how long a quarantined GPU must have been quiet before it is tested and may come back; 5 min.
	RestoreAfter time.Duration
	// ShrinkFor is how long a GPU gives one slot less after a run on it found its memory full; 10 min.
	ShrinkFor time.Duration
	// ReserveAfter is how long a job of several GPUs waits before a machine drains towards it; 1 min.
	ReserveAfter time.Duration
	// AgeAfter is how long the first job of a lane waits before the lane counts one band higher; 2 h.
	AgeAfter time.Duration

	Logger *slog.Logger // none: silent
	Now    func() time.Time

	// Runs is told as attempts start and end; nil: nobody is.
	Runs RunCounter

	// OnReady is called once the worker has adopted what there was and is about to take jobs.
	OnReady func(Ready)
}

// RunCounter counts the attempts of a worker: its metrics do. It must not block.
type RunCounter interface {
	Started(project string, waited time.Duration)
	Ended(project string, outcome job.Outcome, ran time.Duration, gpus int)
}

// Ready is what a worker has to say for itself when it starts to take jobs.
type Ready struct {
	Machine   string
	Session   string
	Snapshot  telemetry.Snapshot
	Status    gpuslots.Status
	Source    string // nvml, nvidia-smi, sim, none
	Isolation string
	Adopted   int
}

// Defaults of Config.
const (
	DefaultGrace        = 30 * time.Second
	DefaultSampleEvery  = time.Second
	DefaultRestoreAfter = 5 * time.Minute
	DefaultShrinkFor    = 10 * time.Minute
	DefaultReserveAfter = time.Minute
	DefaultMaxProcesses = 16384
)

func (c Config) withDefaults() Config {
	if c.Grace <= 0 {
		c.Grace = DefaultGrace
	}
	if c.SampleEvery <= 0 {
		c.SampleEvery = DefaultSampleEvery
	}
	if c.ReserveAfter <= 0 {
		c.ReserveAfter = DefaultReserveAfter
	}
	if c.AgeAfter <= 0 {
		c.AgeAfter = AgeAfter
	}
	if c.RestoreAfter <= 0 {
		c.RestoreAfter = DefaultRestoreAfter
	}
	if c.ShrinkFor <= 0 {
		c.ShrinkFor = DefaultShrinkFor
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.Machine == "":
		return errors.New("worker: the machine has no name; give it one with --name")
	case c.Store == "":
		return errors.New("worker: no store folder; name one with --store")
	case c.Queue == nil || c.Source == nil:
		return errors.New("worker: it needs a queue and a GPU source")
	}
	return CheckRoot(c.Users, c.AllowRoot)
}
