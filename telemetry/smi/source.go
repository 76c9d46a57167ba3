package smi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/berthq/berth/telemetry"
)

// Options are the settings of a source. The zero value of each field means its default.
type Options struct {
	Path string   // of nvidia-smi; looked up in PATH
	Env  []string // added to this process's environment

	Suspect    time.Duration // 5 s: nvidia-smi takes a second or two on a large machine
	Unreadable time.Duration // 15 s: it is killed

	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = silent
}

func (o Options) withDefaults() Options {
	if o.Path == "" {
		o.Path = "nvidia-smi"
	}
	if o.Suspect <= 0 {
		o.Suspect = 5 * time.Second
	}
	if o.Unreadable <= 0 {
		o.Unreadable = 15 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Source reads GPUs by starting nvidia-smi.
type Source struct {
	opts   Options
	faults chan telemetry.Fault
	ctx    context.Context // of all that is started
	cancel context.CancelFunc
	lives  sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	caps        map[string]string
	devices     []telemetry.Device
	running     *errand
	silentSince time.Time // of the oldest errand without an answer, or of the first failure
	trouble     string
}

// errand is one reading. Its result is set before done is closed.
type errand struct {
	done chan struct{}
	snap telemetry.Snapshot
	err  error
}

// Open looks what nvidia-smi finds. It fails when there is none, when it fails, and when it finds nothing
// (telemetry.ErrNoGPU).
func Open(ctx context.Context, opts Options) (*Source, error) {
	opts = opts.withDefaults()
	life, cancel := context.WithCancel(context.Background())
	s := &Source{opts: opts, faults: make(chan telemetry.Fault), ctx: life, cancel: cancel}
	limited, stop := context.WithTimeout(ctx, opts.Unreadable)
	defer stop()
	out, err := s.run(limited, "--query-gpu=uuid,compute_cap", "--format=csv,noheader")
	if missing := (*notStartedError)(nil); errors.As(err, &missing) || errors.Is(err, errSilent) {
		return nil, errors.Join(err, s.Close())
	}
	s.caps = parseCapabilities(out) // older ones do not know the question; the devices are what counts
	snap, err := s.read(limited)
	if err == nil && len(snap.Devices) == 0 {
		err = telemetry.ErrNoGPU
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.devices = snap.Devices
	return s, nil
}

// Name is "nvidia-smi".
func (*Source) Name() string { return "nvidia-smi" }

// Devices are those found last.
func (s *Source) Devices(context.Context) ([]telemetry.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, telemetry.ErrClosed
	}
	return append([]telemetry.Device(nil), s.devices...), nil
}

// Snapshot starts nvidia-smi, unless one is still running: then it waits for that and starts another.
func (s *Source) Snapshot(ctx context.Context) (telemetry.Snapshot, error) {
	patience := time.NewTimer(s.patience())
	defer patience.Stop()
	for {
		e, mine, err := s.start()
		if err != nil {
			return telemetry.Snapshot{}, err
		}
		select {
		case <-e.done:
			if !mine {
				continue // it began before this question
			}
			if e.err != nil {
				return s.silent(), nil
			}
			return e.snap, nil
		case <-patience.C:
			return s.silent(), nil
		case <-s.ctx.Done():
			return telemetry.Snapshot{}, telemetry.ErrClosed
		case <-ctx.Done():
			return telemetry.Snapshot{}, fmt.Errorf("waiting for nvidia-smi: %w", ctx.Err())
		}
	}
}

// patience is how long to wait: until suspect, and no more than a moment when a hung one is running already.
func (s *Source) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.silentSince.IsZero() {
		return s.opts.Suspect
	}
	return max(s.opts.Suspect-s.opts.Now().Sub(s.silentSince), 50*time.Millisecond)
}

func (s *Source) start() (e *errand, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, telemetry.ErrClosed
	}
	if s.running != nil {
		return s.running, false, nil
	}
	e = &errand{done: make(chan struct{})}
	s.running = e
	if s.silentSince.IsZero() {
		s.silentSince = s.opts.Now()
	}
	s.lives.Go(func() { s.finish(e) })
	return e, true, nil
}

// finish runs an errand to its end, which for a program in the driver's hands may be never.
func (s *Source) finish(e *errand) {
	ctx, stop := context.WithTimeout(s.ctx, s.opts.Unreadable)
	defer stop()
	e.snap, e.err = s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
	if e.err != nil {
		s.trouble = e.err.Error()
	} else {
		s.silentSince, s.trouble, s.devices = time.Time{}, "", e.snap.Devices
	}
	close(e.done)
}

// silent is the snapshot of an nvidia-smi that does not answer, or answers an error.
func (s *Source) silent() telemetry.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	silence := now.Sub(s.silentSince)
	snap := telemetry.Snapshot{At: now, Health: telemetry.HealthSuspect, Devices: append([]telemetry.Device(nil), s.devices...)}
	snap.Err = s.trouble
	if snap.Err == "" {
		snap.Err = fmt.Sprintf("nvidia-smi has not answered for %s", silence.Round(100*time.Millisecond))
	}
	if silence >= s.opts.Unreadable {
		snap.Health = telemetry.HealthUnreadable
	}
	for _, d := range s.devices {
		r := telemetry.Reading{UUID: d.UUID, Err: snap.Err}
		if snap.Health == telemetry.HealthUnreadable {
			r.Fault = &telemetry.Fault{UUID: d.UUID, Kind: telemetry.FaultUnreadable, At: now, Text: snap.Err}
		}
		snap.Readings = append(snap.Readings, r)
	}
	return snap
}

// Faults never has one: nvidia-smi shows states, and the sampler makes faults of those.
func (s *Source) Faults() <-chan telemetry.Fault { return s.faults }

// Close kills a running nvidia-smi. One that the driver does not let die is left behind, and the error says so.
func (s *Source) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	s.cancel()
	close(s.faults)
	gone := make(chan struct{})
	go func() { s.lives.Wait(); close(gone) }()
	limit := time.NewTimer(3 * time.Second)
	defer limit.Stop()
	select {
	case <-gone:
		return nil
	case <-limit.C:
		return errors.New("nvidia-smi does not die: the driver holds it")
	}
}
