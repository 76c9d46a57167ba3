package gpuslots_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/telemetry"
)

func TestUnknownGPU(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	for what, err := range map[string]error{
		"quarantine":   b.pool.Quarantine("GPU-x", "why"),
		"unquarantine": b.pool.Unquarantine("GPU-x"),
		"dirty":        b.pool.MarkDirty("GPU-x", "1", "why"),
		"clean":        b.pool.Clean("GPU-x", "1"),
		"shrink":       b.pool.Shrink("GPU-x", noon.Add(time.Hour)),
	} {
		if !errors.Is(err, gpuslots.ErrUnknownGPU) || !strings.Contains(err.Error(), "GPU-x") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestQuarantineAndBack(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	if err := b.pool.Quarantine(uuid(0), "XID 79, the GPU has fallen off the bus"); err != nil {
		t.Fatal(err)
	}
	if err := b.pool.CanEver(alone(0)); err != nil {
		t.Errorf("a quarantined card comes back: %v", err)
	}
	r := b.refused(gpuslots.GPUUnhealthy, alone(0))
	if !strings.Contains(r.Error(), "GPU 0 is quarantined (XID 79") {
		t.Errorf("got %v", r)
	}
	b.look(time.Hour)
	b.refused(gpuslots.GPUUnhealthy, alone(0))
	if err := b.pool.Unquarantine(uuid(0)); err != nil {
		t.Fatal(err)
	}
	b.get("1", alone(0))
}

func TestUnreadableGPUsGetNoWork(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *box){
		"the source hangs": func(b *box) { b.show(telemetry.HealthUnreadable) },
		"it is suspect":    func(b *box) { b.show(telemetry.HealthSuspect) },
		"a fatal fault": func(b *box) {
			b.cards[0].Fault = &telemetry.Fault{Kind: telemetry.FaultLost, Fatal: true, Text: "GPU is lost"}
			b.look(time.Second)
		},
		"no reading": func(b *box) { b.cards = b.cards[:0]; b.look(time.Second) },
		"an error": func(b *box) {
			b.cards[0].MemoryUsedMB, b.cards[0].UtilizationPercent, b.cards[0].Err = nil, nil, "unknown error"
			b.look(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, 1, gpuslots.Options{})
			good := b.cards[0]
			spoil(b)
			b.refused(gpuslots.GPUUnhealthy, alone(0))
			if got := b.state(0); got != gpuslots.StateUnreadable {
				t.Errorf("state %s", got)
			}
			b.cards = append(b.cards[:0], good)
			b.look(time.Second)
			b.get("1", alone(0))
		})
	}
}

// An application's fault is in the reading too, but the card goes on.
func TestFaultThatIsNotFatal(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	b.cards[0].Fault = &telemetry.Fault{Kind: telemetry.FaultXID, XID: 31, Text: "XID 31"}
	b.look(time.Second)
	b.get("1", alone(0))
}

func TestDirtySlotsStayTaken(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 4})
	three := shared(100)
	three.Slots = 3
	a := b.get("1", three)
	if err := b.pool.MarkDirty(uuid(0), "1", "process 4711 does not die"); err != nil {
		t.Fatal(err)
	}
	b.get("2", shared(100)) // marked, but not counted twice
	if err := errors.Join(a.Release(), b.pool.Release("2")); err != nil {
		t.Fatal(err)
	}
	b.look(time.Second)
	b.get("3", shared(100))
	b.refused(gpuslots.Resources, shared(100))
	if err := b.pool.Release("3"); err != nil {
		t.Fatal(err)
	}
	b.look(time.Second)
	if r := b.refused(gpuslots.Resources, alone(0)); !strings.Contains(r.Error(), "is not clean (process 4711 does not die)") {
		t.Errorf("got %v", r)
	}
	if err := b.pool.Clean(uuid(0), "1"); err != nil {
		t.Fatal(err)
	}
	b.get("4", alone(0))
}

// A run that uses a GPU which is not its own is named; a run that is over and still there keeps the card closed.
func TestStrays(t *testing.T) {
	t.Parallel()
	b := newBox(t, 2, gpuslots.Options{})
	a := b.get("1", alone(0))
	other := 1 - index(a)
	b.processes(other, 0, ours("1", 500))
	b.look(time.Second)
	strays := b.pool.Status(b.clock()).GPUs[other].Strays
	if len(strays) != 1 || !strays[0].Elsewhere || strays[0].Run != "1" {
		t.Fatalf("got %+v", strays)
	}
	b.get("2", alone(0))
	if err := errors.Join(a.Release(), b.pool.Release("2")); err != nil {
		t.Fatal(err)
	}
	b.look(time.Second)
	if got := b.state(other); got != gpuslots.StateDirty {
		t.Errorf("state %s, want dirty", got)
	}
	b.processes(other, 0)
	b.look(time.Second)
	if got := b.state(other); got != gpuslots.StateReady {
		t.Errorf("state %s, want ready", got)
	}
}

func TestShrinkHeals(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 3})
	for range 5 {
		if err := b.pool.Shrink(uuid(0), noon.Add(10*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	b.get("1", shared(100)) // one slot always stays
	b.refused(gpuslots.Resources, shared(100))
	if got := b.pool.Status(b.clock()).GPUs[0]; got.Slots != 1 || !got.ShrunkUntil.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("got %+v", got)
	}
	if err := b.pool.CanEver(shared(100)); err != nil {
		t.Error(err)
	}
	changed := b.pool.Changed()
	b.look(10 * time.Minute)
	select {
	case <-changed:
	default:
		t.Error("nobody was told that it healed")
	}
	b.get("2", shared(100))
	b.get("3", shared(100))
}

func TestDrain(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{Machine: "gpu01"})
	a := b.get("1", alone(0))
	b.pool.Drain(true)
	if r := b.refused(gpuslots.Draining, shared(0)); !strings.Contains(r.Error(), "gpu01 is draining") {
		t.Errorf("got %v", r)
	}
	if !b.pool.Status(b.clock()).Draining {
		t.Error("the status does not say so")
	}
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	b.pool.Drain(false)
	b.look(time.Second)
	b.get("2", alone(0))
}

// A snapshot that was overtaken does not bring the past back.
func TestOldSnapshotIsLeftAside(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	b.processes(0, 0, theirs(7, 20000))
	old := telemetry.Snapshot{At: noon.Add(-time.Second), Readings: append([]telemetry.Reading(nil), b.cards...)}
	b.pool.Observe(old, b.clock())
	b.get("1", alone(20000))
}

// What a library gone wrong says must not turn into memory that is not there.
func TestNonsenseReadings(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 2})
	r := &b.cards[0]
	r.MemoryUsedMB, r.MemoryFreeMB = ptr[int64](-5000), ptr[int64](99999)
	r.Processes = []telemetry.Process{{PID: 9, MemoryMB: ptr[int64](-7000), Command: "x"}}
	b.look(time.Second)
	if got := b.pool.Status(b.clock()).GPUs[0].AvailableMB; got > 24576 {
		t.Errorf("%d MB of 24576 are free", got)
	}
	b.pool.Observe(telemetry.Snapshot{At: b.clock(), Readings: []telemetry.Reading{{UUID: "GPU-new"}}}, b.clock())
	if got := len(b.pool.Status(b.clock()).GPUs); got != 1 {
		t.Errorf("a GPU that is not the pool's came in: %d", got)
	}
}
