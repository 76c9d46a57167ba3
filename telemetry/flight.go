package telemetry

import (
	"context"
	"errors"
)

// ErrStopped is what a sampler answers after its Run has ended.
var ErrStopped = errors.New("the GPU sampler has stopped")

// flight is one reading, and all who wait for it. Its snapshot is set before done is closed.
type flight struct {
	done chan struct{}
	snap Snapshot
}

// book is a seat in the next reading to begin. One that has begun is no good: what it shows may be older than the
// question.
func (s *Sampler) book() (*flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, ErrStopped
	}
	if s.flying == nil {
		s.flying = &flight{done: make(chan struct{})}
		s.flights.Add(1)
		go s.fly(s.flying)
		return s.flying, nil
	}
	if s.queued == nil {
		s.queued = &flight{done: make(chan struct{})}
	}
	return s.queued, nil
}

// fly reads until nobody waits any more. It is the only caller of the source's Snapshot.
func (s *Sampler) fly(f *flight) {
	defer s.flights.Done()
	for f != nil {
		f.snap = s.read()
		close(f.done)
		f = s.nextFlight()
	}
}

func (s *Sampler) nextFlight() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying, s.queued = s.queued, nil
	return s.flying
}

// read asks the source, puts its answer in order and publishes it.
func (s *Sampler) read() Snapshot {
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.ReadTimeout)
	defer cancel()
	snap, err := s.src.Snapshot(ctx)
	if err != nil {
		snap = Snapshot{Health: HealthUnreadable, Err: err.Error(), Devices: snap.Devices}
	}
	if snap.At.IsZero() {
		snap.At = s.opts.Now()
	}
	snap = s.books.enter(snap)
	s.name(&snap)
	for _, f := range s.books.news(snap) {
		s.tell(f)
	}
	s.publish(snap)
	return snap
}

// name fills in whose the processes are.
func (s *Sampler) name(snap *Snapshot) {
	for i := range snap.Readings {
		for j := range snap.Readings[i].Processes {
			p := &snap.Readings[i].Processes[j]
			p.Run = s.opts.Attribute(p.PID)
			s.namer.name(p)
		}
	}
	s.namer.sweep()
}

func (s *Sampler) publish(snap Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = &snap
	close(s.changed)
	s.changed = make(chan struct{})
	for m := range s.meters {
		m.observe(snap)
	}
}

// stop ends the reading under way, refuses new ones and waits.
func (s *Sampler) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	s.flights.Wait()
}
