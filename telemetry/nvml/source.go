package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berthq/berth/telemetry"
)

// Sentinels of this source.
var (
	// ErrNoProbe means a programming error: the program cannot be its own probe.
	ErrNoProbe = errors.New("this program does not import telemetry/nvml/probe and cannot start an NVML probe")
	// ErrStuck means that the library was still initialising when patience ended. The probe has been killed.
	ErrStuck = errors.New("NVML does not start: the driver may be stuck (dmesg | grep NVRM)")
)

// Source reads GPUs through a probe.
type Source struct {
	opts   Options
	faults chan telemetry.Fault
	closed chan struct{} // closing has begun
	done   chan struct{} // the keeper has ended

	mu          sync.Mutex
	closing     bool
	probe       *process // nil while none is up
	up          chan struct{}
	devices     []telemetry.Device
	pending     *question
	nextID      uint64
	silentSince time.Time // of the oldest question without an answer; zero when all is well
	trouble     string    // why there is no probe
	libraryTime time.Duration
}

// question is one snapshot asked for. Its answer is set before done is closed; without one the probe has ended.
type question struct {
	id     uint64
	done   chan struct{}
	answer *telemetry.Snapshot
	watch  *time.Timer
}

// Open starts a probe and waits until it has found the GPUs: until Unreadable at most, for a driver that nobody keeps
// loaded takes seconds to start. It fails when there is no driver, no library, or no GPU (telemetry.ErrNoGPU).
func Open(ctx context.Context, opts Options) (*Source, error) {
	if !built {
		return nil, telemetry.ErrNotBuilt
	}
	if !registered.Load() {
		return nil, ErrNoProbe
	}
	s := &Source{
		opts:   opts.withDefaults(),
		faults: make(chan telemetry.Fault, 64),
		closed: make(chan struct{}),
		done:   make(chan struct{}),
		up:     make(chan struct{}),
	}
	first := make(chan error, 1)
	go s.keep(first)
	select {
	case err := <-first:
		if err == nil {
			return s, nil
		}
		return nil, errors.Join(err, s.Close())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("waiting for NVML: %w", ctx.Err()), s.Close())
	}
}

// Name is "nvml".
func (*Source) Name() string { return "nvml" }

// Devices are those the probe found last.
func (s *Source) Devices(context.Context) ([]telemetry.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, telemetry.ErrClosed
	}
	return append([]telemetry.Device(nil), s.devices...), nil
}

// Snapshot asks the probe. Without an answer in time it says so: suspect, then unreadable.
func (s *Source) Snapshot(ctx context.Context) (telemetry.Snapshot, error) {
	patience := time.NewTimer(s.patience())
	defer patience.Stop()
	for {
		q, mine, up, err := s.ask()
		if err != nil {
			return telemetry.Snapshot{}, err
		}
		var answered chan struct{}
		if q != nil {
			answered, up = q.done, nil
		}
		select {
		case <-answered:
			if mine && q.answer != nil { // another's answer began before this question
				snap := *q.answer
				snap.At, snap.Health = s.opts.Now(), telemetry.HealthOK
				return snap, nil
			}
		case <-up:
		case <-patience.C:
			return s.silent(), nil
		case <-s.closed:
			return telemetry.Snapshot{}, telemetry.ErrClosed
		case <-ctx.Done():
			return telemetry.Snapshot{}, fmt.Errorf("waiting for NVML: %w", ctx.Err())
		}
	}
}

// patience is how long to wait for an answer: until suspect, and no more than a moment when that is so already.
func (s *Source) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silentSince.IsZero() {
		return s.opts.Suspect
	}
	return max(s.opts.Suspect-s.opts.Now().Sub(s.silentSince), 50*time.Millisecond)
}

// ask puts a question to the probe, or gives the one that is unanswered. Without a probe it gives the channel that
// closes when there is one.
func (s *Source) ask() (q *question, mine bool, up chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, false, nil, telemetry.ErrClosed
	}
	if s.probe == nil {
		return nil, false, s.up, nil
	}
	if s.pending != nil {
		return s.pending, false, nil, nil
	}
	s.nextID++
	q = &question{id: s.nextID, done: make(chan struct{})}
	probe := s.probe
	q.watch = time.AfterFunc(s.opts.Unreadable, probe.kill)
	s.pending = q
	s.markSilent()
	probe.send(request{ID: q.id})
	return q, true, nil, nil
}

func (s *Source) markSilent() {
	if s.silentSince.IsZero() {
		s.silentSince = s.opts.Now()
	}
}

// silent is the snapshot of a library that does not answer: every device known, and nothing known of any.
func (s *Source) silent() telemetry.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	silence := now.Sub(s.silentSince)
	if s.silentSince.IsZero() { // answered this very moment, to another
		silence = s.opts.Suspect
	}
	snap := telemetry.Snapshot{At: now, Health: telemetry.HealthSuspect, Devices: append([]telemetry.Device(nil), s.devices...)}
	snap.Err = fmt.Sprintf("NVML has not answered for %s", silence.Round(100*time.Millisecond))
	if s.probe == nil && s.trouble != "" {
		snap.Err += ": " + s.trouble
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

// Faults are the driver's events.
func (s *Source) Faults() <-chan telemetry.Fault { return s.faults }

// LibraryTime is how long the last snapshot's calls spent inside the library.
func (s *Source) LibraryTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.libraryTime
}

// ProbePID is the probe's process id, 0 while there is none.
func (s *Source) ProbePID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probe == nil {
		return 0
	}
	return s.probe.pid()
}

// Close ends the probe. One that the driver does not let die is left behind, and the error names it.
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		<-s.done
		return nil
	}
	s.closing = true
	close(s.closed)
	probe := s.probe
	s.mu.Unlock()
	limit := time.NewTimer(s.opts.Suspect + time.Second)
	defer limit.Stop()
	select {
	case <-s.done:
		return nil
	case <-limit.C:
		if probe == nil {
			return errors.New("the NVML probe does not start and does not die: the driver holds it")
		}
		return fmt.Errorf("the NVML probe (pid %d) does not die: the driver holds it", probe.pid())
	}
}
