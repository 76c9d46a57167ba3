package telemetry_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a source that answers what the test says.
type scripted struct {
	faults chan telemetry.Fault

	mu     sync.Mutex
	snap   telemetry.Snapshot
	err    error
	asked  []time.Time
	around int           // readings under way
	most   int           // ... at the same time, at most
	takes  time.Duration // one reading
}

func newScripted(uuids ...string) *scripted {
	s := &scripted{faults: make(chan telemetry.Fault, 8)}
	for i, uuid := range uuids {
		s.snap.Devices = append(s.snap.Devices, telemetry.Device{UUID: uuid, Index: i, Name: "Test", MemoryTotalMB: 24576})
		s.snap.Readings = append(s.snap.Readings, telemetry.Reading{UUID: uuid})
	}
	return s
}

func (s *scripted) Name() string                                        { return "scripted" }
func (s *scripted) Devices(context.Context) ([]telemetry.Device, error) { return s.snap.Devices, nil }
func (s *scripted) Faults() <-chan telemetry.Fault                      { return s.faults }
func (s *scripted) Close() error                                        { return nil }

func (s *scripted) Snapshot(ctx context.Context) (telemetry.Snapshot, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	s.around++
	s.most = max(s.most, s.around)
	takes := s.takes
	s.mu.Unlock()
	var err error
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.around--
	if err != nil {
		return telemetry.Snapshot{}, err
	}
	snap := s.snap
	snap.Readings = append([]telemetry.Reading(nil), s.snap.Readings...)
	return snap, s.err
}

func (s *scripted) set(f func(*telemetry.Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.snap)
}

func (s *scripted) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked...)
}

func f64(v float64) *float64 { return &v }
func i64(v int64) *int64     { return &v }

// running starts a sampler that ends with the test; inside a synctest bubble, call stop before the end.
func running(src telemetry.Source, opts telemetry.SamplerOptions) (s *telemetry.Sampler, stop func()) {
	s = telemetry.NewSampler(src, opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	return s, func() { cancel(); <-done }
}
