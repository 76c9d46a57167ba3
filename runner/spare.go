package runner

import (
	"log/slog"
	"sync"

	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/shim"
)

// spares are shims made ready beforehand, so that a run does not wait for a binary to load, nor for its folder and
// cgroup. Safe for concurrent use.
type spares struct {
	exe    string
	dir    string
	tree   cgroup.Tree
	want   int
	logger *slog.Logger

	mu     sync.Mutex
	ready  []*blank
	making int
	closed bool
	makers sync.WaitGroup
}

// take returns a spare shim, or nil. Whoever has taken one calls refill when the run is under way.
func (s *spares) take() *blank {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ready) > 0 {
		last := len(s.ready) - 1
		b := s.ready[last]
		s.ready = s.ready[:last]
		if b.alive() {
			return b
		}
		s.discard(b)
	}
	return nil
}

// refill has the missing ones made.
func (s *spares) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fill()
}

// fill has as many made as are missing. The lock is held.
func (s *spares) fill() {
	for !s.closed && len(s.ready)+s.making < s.want {
		s.making++
		s.makers.Go(s.make)
	}
}

func (s *spares) make() {
	b, err := s.newBlank(shim.ArgSpare)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making--
	switch {
	case err != nil:
		s.logger.Warn("no spare shim: the next run starts a little later", "err", err)
	case s.closed:
		s.discard(b)
	default:
		s.ready = append(s.ready, b)
	}
}

func (s *spares) discard(b *blank) {
	if err := b.discard(); err != nil {
		s.logger.Warn("a spare shim left something behind", "err", err)
	}
}

func (s *spares) close() {
	s.mu.Lock()
	s.closed = true
	ready := s.ready
	s.ready = nil
	s.mu.Unlock()
	s.makers.Wait()
	for _, b := range ready {
		s.discard(b)
	}
}
