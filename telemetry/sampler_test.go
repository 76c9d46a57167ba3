package telemetry_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthq/berth/telemetry"
)

func TestPeriodFollowsTheMeters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a")
		s, stop := running(src, telemetry.SamplerOptions{})
		defer stop()
		within := func(d time.Duration) int {
			synctest.Wait()
			before := len(src.times())
			time.Sleep(d)
			synctest.Wait()
			return len(src.times()) - before
		}
		time.Sleep(100 * time.Millisecond)
		if n := within(time.Minute); n != 12 {
			t.Errorf("idle: %d readings a minute, want 12", n)
		}
		m := s.Meter("GPU-a")
		metered := time.Now()
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if last := src.times(); last[len(last)-1].Before(metered) {
			t.Error("a run's first reading should be soon")
		}
		if n := within(time.Minute); n != 60 {
			t.Errorf("metered: %d readings a minute, want 60", n)
		}
		time.Sleep(10 * time.Minute)
		if n := within(time.Minute); n != 30 {
			t.Errorf("metered for ten minutes: %d readings a minute, want 30", n)
		}
		quick := s.MeterEvery(250*time.Millisecond, "GPU-a")
		if n := within(time.Minute); n < 239 || n > 241 {
			t.Errorf("a second meter of 250 ms: %d readings a minute, want 240", n)
		}
		quick.Stop()
		m.Stop()
		time.Sleep(10 * time.Second)
		if n := within(time.Minute); n != 12 {
			t.Errorf("idle again: %d readings a minute, want 12", n)
		}
	})
}

// However many ask, one reading is under way, and nobody gets one that began before the question.
func TestRefreshIsSingleFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a")
		src.takes = 100 * time.Millisecond
		s := telemetry.NewSampler(src, telemetry.SamplerOptions{})
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				snap, err := s.Refresh(t.Context())
				if err != nil {
					t.Error(err)
				}
				if began := snap.At.Add(-src.takes); began.Before(asked) {
					t.Errorf("asked at %s, got a reading begun at %s", asked, began)
				}
			})
		}
		all.Wait()
		if src.most != 1 {
			t.Errorf("%d readings at the same time", src.most)
		}
		if n := len(src.times()); n > 4 {
			t.Errorf("%d readings for 200 callers in 200 ms", n)
		}
	})
}

func TestFreshUsesTheCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a")
		s := telemetry.NewSampler(src, telemetry.SamplerOptions{})
		if _, ok := s.Latest(); ok {
			t.Error("a snapshot before the first reading")
		}
		for _, wait := range []time.Duration{0, 3 * time.Second, 2 * time.Second, time.Second} {
			time.Sleep(wait)
			if _, err := s.Fresh(t.Context(), 5*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(src.times()); n != 2 {
			t.Errorf("%d readings for questions at 0, 3, 5 and 6 s with a cache of 5 s: want 2", n)
		}
	})
}

func TestRefreshEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a")
		src.takes = 3 * time.Second
		s := telemetry.NewSampler(src, telemetry.SamplerOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the context's end, got %v", err)
		}
		time.Sleep(5 * time.Second) // the reading itself goes on, for the others
		if _, ok := s.Latest(); !ok {
			t.Error("the reading was lost with its first caller")
		}
	})
}

func TestSourceInTroubleStillMakesSnapshots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a")
		s := telemetry.NewSampler(src, telemetry.SamplerOptions{ReadTimeout: time.Second})
		if _, err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		src.takes = time.Hour // ignores nothing but answers never
		snap, err := s.Refresh(t.Context())
		if err != nil || snap.Health != telemetry.HealthUnreadable || snap.Err == "" {
			t.Errorf("%+v, %v", snap, err)
		}
		if len(snap.Devices) != 1 || len(snap.Readings) != 1 || snap.Readings[0].Err == "" || snap.Readings[0].Fault != nil {
			t.Errorf("the device is known still, and not lost: %+v", snap)
		}
	})
}

func TestChangedWakesWaiters(t *testing.T) {
	t.Parallel()
	s := telemetry.NewSampler(newScripted("GPU-a"), telemetry.SamplerOptions{})
	for range 3 {
		changed := s.Changed()
		snap, err := s.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-changed
		if latest, ok := s.Latest(); !ok || !latest.At.Equal(snap.At) {
			t.Errorf("latest %v, refreshed %v", latest.At, snap.At)
		}
	}
}

func TestStopEndsReadingAndRefusesMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a")
		src.takes = 10 * time.Second
		s, stop := running(src, telemetry.SamplerOptions{})
		synctest.Wait()
		stop()
		if _, err := s.Refresh(t.Context()); !errors.Is(err, telemetry.ErrStopped) {
			t.Errorf("refresh after the end: %v", err)
		}
		if src.around != 0 {
			t.Error("a reading has outlived Run")
		}
	})
}

func TestProcessesAreNamedAndAttributed(t *testing.T) {
	t.Parallel()
	src := newScripted("GPU-a")
	own := os.Getpid()
	src.set(func(s *telemetry.Snapshot) {
		s.Readings[0].ProcessesKnown = true
		s.Readings[0].Processes = []telemetry.Process{{PID: own}, {PID: 1}, {PID: 1 << 30}, {PID: 7, User: "eve", Command: "from the source"}}
	})
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{Attribute: func(pid int) string {
		if pid == own {
			return "1842.1"
		}
		return ""
	}})
	snap, err := s.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := snap.Readings[0].Processes
	if p[0].Run != "1842.1" || p[0].Foreign() || !strings.Contains(p[0].Command, "telemetry.test") || p[0].User == "" {
		t.Errorf("our own: %+v", p[0])
	}
	if !p[1].Foreign() || p[1].User != "root" || p[1].Command == "" {
		t.Errorf("process 1: %+v", p[1])
	}
	if !p[2].Foreign() || p[2].User != "" || p[2].Command != "" {
		t.Errorf("no such process: %+v", p[2])
	}
	if p[3].User != "eve" || p[3].Command != "from the source" {
		t.Errorf("named by the source: %+v", p[3])
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a", "GPU-b")
		s, stop := running(src, telemetry.SamplerOptions{Period: time.Second})
		defer stop()
		a, b := s.Meter("GPU-a"), s.Meter("GPU-b")
		expect := func(what string, want ...telemetry.FaultKind) {
			t.Helper()
			time.Sleep(3 * time.Second) // several readings: a state is said once
			synctest.Wait()
			var got []telemetry.FaultKind
			for len(s.Faults()) > 0 {
				f := <-s.Faults()
				if f.At.IsZero() || !f.Fatal {
					t.Errorf("%s: %+v", what, f)
				}
				got = append(got, f.Kind)
			}
			if len(got) != len(want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
				return
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%s: got %v, want %v", what, got, want)
				}
			}
		}
		src.faults <- telemetry.NewXID("GPU-a", 79, time.Time{})
		expect("an XID", telemetry.FaultXID)
		src.set(func(s *telemetry.Snapshot) { s.Readings[1].ECCUncorrected = i64(4) })
		expect("errors from before the start")
		src.set(func(s *telemetry.Snapshot) { s.Readings[1].ECCUncorrected = i64(5) })
		expect("one more error", telemetry.FaultECC)
		src.set(func(s *telemetry.Snapshot) { s.Devices, s.Readings = s.Devices[:1], s.Readings[:1] })
		expect("a device gone", telemetry.FaultLost)
		src.set(func(s *telemetry.Snapshot) { s.Devices, s.Readings = s.Devices[:2], s.Readings[:2] })
		expect("and back")
		src.set(func(s *telemetry.Snapshot) { s.Devices, s.Readings = s.Devices[:1], s.Readings[:1] })
		expect("and gone again", telemetry.FaultLost)
		src.faults <- telemetry.NewXID("", 79, time.Time{})
		expect("an XID of nobody", telemetry.FaultXID)
		if n := len(a.Faults()); n != 2 {
			t.Errorf("the meter of GPU a saw %d faults, want its XID and nobody's: %v", n, a.Faults())
		}
		if n := len(b.Faults()); n != 4 {
			t.Errorf("the meter of GPU b saw %d faults: %v", n, b.Faults())
		}
		for range 100 {
			src.faults <- telemetry.NewXID("GPU-a", 48, time.Time{})
			synctest.Wait()
		}
		if n := len(a.Faults()); n != 32 {
			t.Errorf("a meter keeps %d faults, want 32", n)
		}
	})
}
