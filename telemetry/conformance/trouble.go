package conformance

import (
	"os/exec"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
)

// child is a process that waits for its end.
func child(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func processes(t *testing.T, m *Machine) {
	possible(t, m.Hold != nil, "holding a GPU")
	src := open(t, m)
	pid := child(t)
	m.Hold(1, pid, 0)
	found := func(s telemetry.Snapshot, gpu int) *telemetry.Process {
		for _, p := range s.Readings[gpu].Processes {
			if p.PID == pid {
				return &p
			}
		}
		return nil
	}
	snap := until(t, src, "the process is on GPU 1", func(s telemetry.Snapshot) bool { return found(s, 1) != nil })
	if p := found(snap, 1); p.MemoryMB == nil || *p.MemoryMB < 0 {
		t.Errorf("its memory is not known: %+v", p)
	}
	if found(snap, 0) != nil {
		t.Error("it is on GPU 0 too")
	}
}

func absent(t *testing.T, m *Machine) {
	possible(t, m.Bare != nil, "taking a gauge away")
	m.Bare(0)
	snap := take(t, open(t, m))
	if snap.Readings[0].PowerW != nil {
		t.Errorf("a card without a power meter shows %g W", *snap.Readings[0].PowerW)
	}
	if snap.Readings[0].Err != "" || snap.Readings[0].MemoryUsedMB == nil {
		t.Errorf("the rest of it should be there: %s", describe(snap))
	}
	if snap.Readings[1].PowerW == nil {
		t.Error("the other card has a power meter")
	}
}

func lost(t *testing.T, m *Machine) {
	possible(t, m.Lose != nil, "losing a GPU")
	src := open(t, m)
	take(t, src)
	m.Lose(0, true)
	snap := until(t, src, "GPU 0 is lost", func(s telemetry.Snapshot) bool {
		return len(s.Readings) > 1 && s.Readings[0].Fault != nil && s.Readings[1].MemoryUsedMB != nil
	})
	if f := snap.Readings[0].Fault; f.Kind != telemetry.FaultLost || !f.Fatal || f.UUID != snap.Devices[0].UUID || f.Text == "" {
		t.Errorf("fault %+v", f)
	}
	if snap.Readings[0].MemoryFreeMB != nil {
		t.Error("a lost card has no free memory to show")
	}
	if snap.Readings[1].Fault != nil || snap.Health != telemetry.HealthOK {
		t.Errorf("the other card is well: %s", describe(snap))
	}
	m.Lose(0, false)
	until(t, src, "GPU 0 is back", func(s telemetry.Snapshot) bool {
		return s.Readings[0].Fault == nil && s.Readings[0].MemoryFreeMB != nil
	})
}

func xid(t *testing.T, m *Machine) {
	possible(t, m.XID != nil, "reporting an XID")
	src := open(t, m)
	list, err := src.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	take(t, src)
	for _, want := range []struct {
		gpu, xid int
		fatal    bool
	}{{1, 79, true}, {0, 31, false}} {
		m.XID(want.gpu, want.xid)
		take(t, src) // a simulated machine lives from reading to reading
		select {
		case f, open := <-src.Faults():
			if !open || f.Kind != telemetry.FaultXID || f.XID != want.xid || f.Fatal != want.fatal || f.UUID != list[want.gpu].UUID || f.At.IsZero() {
				t.Errorf("want XID %d on GPU %d, got %+v", want.xid, want.gpu, f)
			}
		case <-time.After(time.Minute):
			t.Fatalf("XID %d did not arrive", want.xid)
		}
	}
}

func hang(t *testing.T, m *Machine) {
	possible(t, m.Hang != nil, "hanging the driver")
	src := open(t, m)
	before := take(t, src)
	m.Hang(true)
	defer m.Hang(false)
	snap := until(t, src, "suspect", func(s telemetry.Snapshot) bool { return s.Health == telemetry.HealthSuspect })
	if len(snap.Devices) != len(before.Devices) || snap.Err == "" || snap.Readings[0].MemoryFreeMB != nil {
		t.Errorf("suspect: %s", describe(snap))
	}
	snap = until(t, src, "unreadable", func(s telemetry.Snapshot) bool { return s.Health == telemetry.HealthUnreadable })
	if f := snap.Readings[0].Fault; f == nil || f.Kind != telemetry.FaultUnreadable {
		t.Errorf("unreadable: %s", describe(snap))
	}
	m.Hang(false)
	snap = until(t, src, "readable again", func(s telemetry.Snapshot) bool { return s.Health == telemetry.HealthOK })
	if snap.Readings[0].MemoryFreeMB == nil || snap.Readings[0].Fault != nil {
		t.Errorf("readable again: %s", describe(snap))
	}
}
