package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
)

// Machine is one machine under test, made anew for every test. The functions that are nil are things that cannot be
// done to it, a real card above all.
type Machine struct {
	Open func() (telemetry.Source, error) // may be called again: the same machine after a restart

	Hold func(gpu, pid int, memoryMB int64) // a process allocates memory; 0 MB: as much as the source will find
	Lose func(gpu int, on bool)
	XID  func(gpu, xid int)
	Hang func(on bool) // the whole library
	Bare func(gpu int) // takes the power meter away

}

// Run runs the suite on machines with at least one GPU, two where something can be done to them.
func Run(t *testing.T, machine func(t *testing.T) *Machine) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *Machine)
	}{
		{"Devices", devices},
		{"DevicesAfterRestart", restart},
		{"Snapshot", snapshot},
		{"EndedContext", endedContext},
		{"ManyAtOnce", manyAtOnce},
		{"Close", closing},
		{"Processes", processes},
		{"UnknownIsAbsent", absent},
		{"LostDevice", lost},
		{"XID", xid},
		{"Hang", hang},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, machine(t))
		})
	}
}

// possible skips what this machine cannot be made to do.
func possible(t *testing.T, can bool, what string) {
	t.Helper()
	if !can {
		t.Skipf("%s cannot be done to this machine", what)
	}
}

func open(t *testing.T, m *Machine) telemetry.Source {
	t.Helper()
	src, err := m.Open()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return src
}

func take(t *testing.T, src telemetry.Source) telemetry.Snapshot {
	t.Helper()
	snap, err := src.Snapshot(t.Context())
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	if len(snap.Readings) != len(snap.Devices) {
		t.Fatalf("%d readings for %d devices", len(snap.Readings), len(snap.Devices))
	}
	for i, r := range snap.Readings {
		if r.UUID != snap.Devices[i].UUID {
			t.Fatalf("reading %d is of %s, device %d is %s", i, r.UUID, i, snap.Devices[i].UUID)
		}
	}
	return snap
}

// until takes snapshots until one shows what is waited for.
func until(t *testing.T, src telemetry.Source, what string, ok func(telemetry.Snapshot) bool) telemetry.Snapshot {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		snap := take(t, src)
		if ok(snap) {
			return snap
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s; last: %s", what, describe(snap))
		}
		select {
		case <-t.Context().Done():
			t.Fatal("test ended")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func describe(s telemetry.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q", s.Health, s.Err)
	for _, r := range s.Readings {
		fmt.Fprintf(&b, "\n%s err=%q fault=%v processes=%v", r.UUID, r.Err, r.Fault, r.Processes)
	}
	return b.String()
}

func devices(t *testing.T, m *Machine) {
	src := open(t, m)
	list, err := src.Devices(t.Context())
	if err != nil || len(list) == 0 {
		t.Fatalf("devices: %v, %v", list, err)
	}
	seen := map[string]bool{}
	for i, d := range list {
		if seen[d.UUID] || seen["key "+d.Key()] {
			t.Errorf("%s (%s) twice", d.UUID, d.Key())
		}
		seen[d.UUID], seen["key "+d.Key()] = true, true
		if !strings.HasPrefix(d.UUID, "GPU-") && !strings.HasPrefix(d.UUID, "MIG-") {
			t.Errorf("UUID %q", d.UUID)
		}
		if d.Name == "" || d.MemoryTotalMB <= 0 || !strings.Contains(d.ComputeCapability, ".") {
			t.Errorf("device %d is incomplete: %+v", i, d)
		}
		if i > 0 && d.Index < list[i-1].Index {
			t.Errorf("devices are not in the order of their index: %d after %d", d.Index, list[i-1].Index)
		}
	}
}

func restart(t *testing.T, m *Machine) {
	first, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	before, err := first.Devices(t.Context())
	if err := errors.Join(err, first.Close()); err != nil {
		t.Fatal(err)
	}
	after, err := open(t, m).Devices(t.Context())
	if err != nil || len(after) != len(before) {
		t.Fatalf("after a restart: %v, %v", after, err)
	}
	for i := range after {
		if after[i].UUID != before[i].UUID {
			t.Errorf("device %d was %s, is %s", i, before[i].UUID, after[i].UUID)
		}
	}
}

func snapshot(t *testing.T, m *Machine) {
	src := open(t, m)
	snap := take(t, src)
	if snap.Health != telemetry.HealthOK || snap.At.IsZero() {
		t.Errorf("health %q (%s) at %s", snap.Health, snap.Err, snap.At)
	}
	for _, r := range snap.Readings {
		if r.Err != "" || r.Fault != nil {
			t.Errorf("%s: %s %v", r.UUID, r.Err, r.Fault)
		}
		within(t, "utilisation", r.UtilizationPercent, 0, 100)
		within(t, "temperature", r.TemperatureC, 1, 150)
		within(t, "power", r.PowerW, 0, 2000)
		if r.MemoryTotalMB == nil || r.MemoryUsedMB == nil || r.MemoryFreeMB == nil {
			t.Fatalf("%s: memory is missing", r.UUID)
		}
		if used, free, total := *r.MemoryUsedMB, *r.MemoryFreeMB, *r.MemoryTotalMB; used < 0 || free < 0 || used+free > total {
			t.Errorf("%s: %d used + %d free of %d MiB", r.UUID, used, free, total)
		}
		if !r.ProcessesKnown {
			t.Errorf("%s: processes are not known", r.UUID)
		}
	}
	if again := take(t, src); again.At.Before(snap.At) {
		t.Errorf("time goes back: %s after %s", again.At, snap.At)
	}
}

func within(t *testing.T, what string, v *float64, least, most float64) {
	t.Helper()
	if v == nil {
		t.Errorf("%s is missing", what)
	} else if *v < least || *v > most {
		t.Errorf("%s is %g", what, *v)
	}
}

func endedContext(t *testing.T, m *Machine) {
	src := open(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := src.Snapshot(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("want nothing or context.Canceled, got %v", err)
	}
	take(t, src)
}

func manyAtOnce(t *testing.T, m *Machine) {
	src := open(t, m)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 3 {
				if snap, err := src.Snapshot(t.Context()); err != nil || len(snap.Devices) == 0 {
					t.Errorf("%s, %v", describe(snap), err)
				}
			}
		})
	}
	all.Wait()
}

func closing(t *testing.T, m *Machine) {
	src, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := src.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := src.Snapshot(t.Context()); !errors.Is(err, telemetry.ErrClosed) {
		t.Errorf("snapshot after close: %v", err)
	}
	if _, err := src.Devices(t.Context()); !errors.Is(err, telemetry.ErrClosed) {
		t.Errorf("devices after close: %v", err)
	}
	for range src.Faults() { // ends because it is closed
	}
}
