package gpuslots_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/telemetry"
)

func TestForeignPolicy(t *testing.T) {
	t.Parallel()
	busy := func(p telemetry.Process, util float64) telemetry.Process { p.UtilizationPercent = &util; return p }
	xorg := telemetry.Process{PID: 5, MemoryMB: ptr[int64](300), Command: "/usr/lib/xorg/Xorg :0"}
	for name, tc := range map[string]struct {
		policy gpuslots.ForeignPolicy
		procs  []telemetry.Process
		util   float64
		mb     int64
		want   gpuslots.Reason // "" = granted
	}{
		"nobody":                          {gpuslots.ForeignBlock, nil, 0, 0, ""},
		"ignored process":                 {gpuslots.ForeignBlock, []telemetry.Process{xorg}, 80, 0, ""},
		"block: one is enough":            {gpuslots.ForeignBlock, []telemetry.Process{theirs(7, 10)}, 0, 0, gpuslots.Foreign},
		"avoid: a small one":              {gpuslots.ForeignAvoid, []telemetry.Process{theirs(7, 900)}, 10, 0, ""},
		"avoid: the card's load is its":   {gpuslots.ForeignAvoid, []telemetry.Process{theirs(7, 900)}, 51, 0, gpuslots.Foreign},
		"avoid: its own load is known":    {gpuslots.ForeignAvoid, []telemetry.Process{busy(theirs(7, 900), 20)}, 90, 0, ""},
		"avoid: half the memory":          {gpuslots.ForeignAvoid, []telemetry.Process{theirs(7, 13000)}, 0, 0, gpuslots.Foreign},
		"avoid: enough left for a number": {gpuslots.ForeignAvoid, []telemetry.Process{theirs(7, 13000)}, 0, 11000, ""},
		"avoid: not enough left":          {gpuslots.ForeignAvoid, []telemetry.Process{theirs(7, 13000)}, 0, 12000, gpuslots.Foreign},
		"ignore: load and memory":         {gpuslots.ForeignIgnore, []telemetry.Process{theirs(7, 13000)}, 100, 0, ""},
		"ignore: memory is memory":        {gpuslots.ForeignIgnore, []telemetry.Process{theirs(7, 13000)}, 0, 12000, gpuslots.Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, 1, gpuslots.Options{Foreign: tc.policy})
			b.processes(0, 0, tc.procs...)
			b.cards[0].UtilizationPercent = &tc.util
			b.look(time.Second)
			if tc.want == "" {
				b.get("1", alone(tc.mb))
				return
			}
			r := b.refused(tc.want, alone(tc.mb))
			if !strings.Contains(r.Error(), "python3 (pid 7, anna, ") {
				t.Errorf("does not say who: %v", r)
			}
			if got := b.state(0); tc.mb == 0 && got != gpuslots.StateForeign {
				t.Errorf("state %s, want foreign", got)
			}
		})
	}
}

// Memory that no visible process owns up to is somebody's all the same.
func TestHiddenForeignUse(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{Foreign: gpuslots.ForeignBlock})
	b.processes(0, 700) // contexts and the driver
	b.look(time.Second)
	if got := b.state(0); got != gpuslots.StateReady {
		t.Errorf("state %s, want ready", got)
	}
	b.processes(0, 5000)
	b.look(time.Second)
	r := b.refused(gpuslots.Foreign, alone(0))
	if !strings.Contains(r.Error(), "cannot be seen from here (5000 MB)") {
		t.Errorf("got %v", r)
	}
}

// The load of our own runs does not close a shared card.
func TestOwnLoadDoesNotClose(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 2})
	b.get("1", shared(1000))
	b.processes(0, 0, ours("1", 1000))
	b.cards[0].UtilizationPercent = ptr(100.0)
	b.look(time.Second)
	second := b.get("2", shared(1000))

	if err := second.Release(); err != nil { // nor when a small foreign process is there too, whose part nobody can tell
		t.Fatal(err)
	}
	b.processes(0, 0, ours("1", 1000), theirs(7, 100))
	b.look(time.Second)
	b.get("2", shared(1000))
}

// Where no process list is to be had, the load of an empty card is somebody's; but not that of a run just gone.
func TestLoadWithoutProcessList(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	a := b.get("1", alone(0))
	b.cards[0].ProcessesKnown = false
	b.cards[0].UtilizationPercent = ptr(90.0)
	b.look(time.Minute)
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	b.look(time.Second)
	if got := b.state(0); got != gpuslots.StateReady {
		t.Errorf("one second after the run: %s", got)
	}
	b.look(gpuslots.DefaultSettle)
	b.refused(gpuslots.Foreign, alone(0))
}

func TestForeignExitSettles(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	b.processes(0, 0, theirs(7, 20000))
	b.look(time.Second)
	b.refused(gpuslots.Foreign, alone(10000))
	b.processes(0, 0)
	b.look(time.Second)
	left := b.clock()
	b.look(3 * time.Second)
	r := b.refused(gpuslots.Foreign, alone(10000))
	if !strings.Contains(r.Error(), "left by a foreign process 3.0 s ago (settles for 5 s)") {
		t.Errorf("got %v", r)
	}
	if at, ok := b.pool.NextChange(b.clock()); !ok || !at.Equal(left.Add(5*time.Second)) {
		t.Errorf("next change %v, %v", at, ok)
	}
	b.look(2 * time.Second)
	b.get("1", alone(10000))
}

// A card with a foreign process on it is taken after one without, whatever the scores.
func TestAvoidTakesUntouchedCardsFirst(t *testing.T) {
	t.Parallel()
	b := newBox(t, 2, gpuslots.Options{})
	b.processes(0, 0, theirs(7, 10))
	b.processes(1, 900)
	b.look(time.Second)
	if a := b.get("1", alone(0)); index(a) != 1 {
		t.Errorf("got GPU %d", index(a))
	}
	if a := b.get("2", alone(0)); index(a) != 0 {
		t.Errorf("got GPU %d", index(a))
	}
}
