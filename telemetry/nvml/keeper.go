package nvml

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/berthq/berth/telemetry"
)

// keep has one probe running, and never two, until the source is closed. The outcome of the first start goes to
// first, and ends the keeper when it is an error: who opens a source wants to know.
func (s *Source) keep(first chan<- error) {
	defer close(s.done)
	defer close(s.faults)
	backoff := s.opts.Backoff
	for {
		met, err := s.oneLife(first)
		if first != nil {
			if met == nil {
				first <- err
				return
			}
			first = nil
		}
		if met != nil && s.opts.Now().Sub(*met) > s.opts.BackoffMax {
			backoff = s.opts.Backoff
		}
		s.lost(err, backoff)
		pause := time.NewTimer(backoff)
		select {
		case <-s.closed:
			pause.Stop()
			return
		case <-pause.C:
		}
		backoff = min(2*backoff, s.opts.BackoffMax)
	}
}

// oneLife starts a probe and listens to it until it has ended and is gone. met is when it said hello, nil if never.
func (s *Source) oneLife(first chan<- error) (met *time.Time, err error) {
	probe, err := startProcess(s.opts)
	if err != nil {
		return nil, err
	}
	watch := time.AfterFunc(s.opts.Unreadable, probe.kill) // until it has said hello
	over := make(chan struct{})
	go func() { // a closed source ends its probe; a dead probe ends this
		select {
		case <-s.closed:
			probe.shut(s.opts.Suspect)
		case <-over:
		}
	}()
	lines := bufio.NewScanner(probe.answers)
	lines.Buffer(make([]byte, 0, 64<<10), 16<<20)
	var refused error
	for refused == nil && lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			s.opts.Logger.Warn("nvml probe speaks nonsense", "err", err)
			continue
		}
		if a.Hello == nil {
			s.heard(a)
			continue
		}
		watch.Stop()
		if refused = s.greet(probe, *a.Hello); refused == nil {
			now := s.opts.Now()
			met = &now
			if first != nil {
				first <- nil
			}
		}
	}
	watch.Stop()
	if refused != nil || lines.Err() != nil {
		probe.kill()
	}
	s.farewell()
	died := probe.wait() // however long the driver holds it: no second one before
	close(over)
	if refused != nil {
		return met, refused
	}
	if met == nil && errors.Is(died, errKilled) {
		return nil, fmt.Errorf("%w: no answer for %s", ErrStuck, s.opts.Unreadable)
	}
	return met, died
}

// greet takes a probe into service.
func (s *Source) greet(probe *process, h hello) error {
	if h.Err != "" {
		return errors.New(h.Err)
	}
	for _, p := range h.Problems {
		s.opts.Logger.Warn("gpu cannot be used", "err", p)
	}
	if len(h.Missing) > 0 {
		s.opts.Logger.Info("this driver's NVML lacks functions; their gauges stay empty", "driver", h.Driver, "missing", h.Missing)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(h.Devices) == 0 && len(s.devices) == 0 {
		return telemetry.ErrNoGPU
	}
	s.devices = h.Devices // what is missing now is lost: the sampler knows what there was
	s.probe, s.trouble = probe, ""
	close(s.up)
	return nil
}

// heard takes one answer or fault.
func (s *Source) heard(a answer) {
	if a.Fault != nil {
		select {
		case s.faults <- *a.Fault:
		default:
			s.opts.Logger.Error("gpu fault not taken: its reader is behind", "fault", a.Fault.String())
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.pending
	if q == nil || q.id != a.ID || a.Snapshot == nil {
		return
	}
	q.watch.Stop()
	if a.Snapshot.Devices == nil {
		a.Snapshot.Devices = s.devices
	}
	q.answer = a.Snapshot
	s.devices, s.libraryTime = a.Snapshot.Devices, time.Duration(a.Library)
	s.pending, s.silentSince = nil, time.Time{}
	close(q.done)
}

// farewell takes a probe out of service: what it was asked stays unanswered.
func (s *Source) farewell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probe != nil {
		s.up = make(chan struct{})
	}
	s.probe = nil
	s.markSilent()
	if s.pending != nil {
		s.pending.watch.Stop()
		close(s.pending.done)
		s.pending = nil
	}
}

// lost notes why there is no probe.
func (s *Source) lost(err error, pause time.Duration) {
	s.mu.Lock()
	s.trouble = fmt.Sprintf("%v; next try in %s", err, pause)
	closing := s.closing
	s.mu.Unlock()
	if !closing {
		s.opts.Logger.Warn("nvml probe ended; it is started again", "err", err, "pause", pause)
	}
}
