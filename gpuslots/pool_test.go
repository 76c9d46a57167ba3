package gpuslots_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

func TestGangIsAllOrNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, 4, gpuslots.Options{})
	first := b.get("1", job.Requirements{GPUs: 2})
	if first.UUIDs()[0] == first.UUIDs()[1] {
		t.Fatal("one card twice in a gang")
	}
	r := b.refused(gpuslots.Resources, job.Requirements{GPUs: 3})
	want := "needs 3 GPUs; only 2 GPUs would do: GPU 0 is held by run 1 alone; GPU 1 is held by run 1 alone"
	if r.Error() != want {
		t.Errorf("got  %s\nwant %s", r, want)
	}
	b.get("2", job.Requirements{GPUs: 2}) // nothing was kept for the gang that got nothing
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	b.look(0)
	b.get("3", job.Requirements{GPUs: 2})
}

func TestExclusiveAndSharedNeverMeet(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 4})
	s := b.get("shared", shared(1000))
	b.refused(gpuslots.Resources, alone(1000))
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	b.look(0)
	b.get("alone", alone(1000))
	b.refused(gpuslots.Resources, shared(1000))
}

func TestSlots(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 4})
	three := shared(100)
	three.Slots = 3
	b.get("1", three)
	r := b.refused(gpuslots.Resources, three)
	if !strings.Contains(r.Error(), "GPU 0 has 1 of 4 slots free, 3 wanted") {
		t.Errorf("got %v", r)
	}
	b.get("2", shared(100))
	five := shared(100)
	five.Slots = 5
	b.refused(gpuslots.NeverFits, five)
}

func TestWhatCanNeverFit(t *testing.T) {
	t.Parallel()
	b := newBox(t, 2, gpuslots.Options{
		Machine: "gpu01", Labels: map[string]string{"rack": "a"}, CPUs: 8, MemoryMB: 64000,
		Frameworks: gpuslots.Frameworks{"torch": nil, "jax": {uuid(1)}},
	})
	for want, req := range map[string]job.Requirements{
		"needs 3 GPUs; gpu01 has 2": {GPUs: 3},
		"needs 1 H100 or B200; of the 2 GPUs of gpu01 0 could ever do: GPU 0 is a NVIDIA A100-SXM4-80GB": {GPUs: 1, GPUModels: []string{"H100", "B200"}},
		"GPU 0 has compute capability 8.0":                        {GPUs: 1, MinCapability: "8.6"},
		"GPU 0 has 24576 MB at most, 30000 MB are wanted":         {GPUs: 1, GPUMemoryMB: 30000},
		"wants GPU 7, which gpu01 does not have (it has 0 1)":     {GPUs: 1, GPUIDs: []string{"7"}},
		"GPU 1 is not among the GPUs asked for":                   {GPUs: 2, GPUIDs: []string{"0"}},
		"wants cupy, which was not found on gpu01":                {GPUs: 1, Frameworks: []string{"cupy"}},
		"of the 2 GPUs of gpu01 1 could ever do: GPU 0 is not se": {GPUs: 2, Frameworks: []string{"torch", "jax"}},
		"wants rack=b; gpu01 has rack=a":                          {Constraints: map[string]string{"rack": "b"}},
		"wants disk=ssd; gpu01 has no label disk":                 {Constraints: map[string]string{"disk": "ssd"}},
		"is for machine gpu02, this is gpu01":                     {Machine: "gpu02"},
		"needs 9 CPUs; gpu01 has 8":                               {CPUs: 9},
		"needs 70000 MB of host memory; gpu01 has 64000 MB":       {MemoryMB: 70000},
	} {
		err := b.pool.CanEver(req)
		if !errors.Is(err, &gpuslots.Refusal{Reason: gpuslots.NeverFits}) || !strings.Contains(err.Error(), want) {
			t.Errorf("want NeverFits: …%s…\ngot %v", want, err)
		}
		if _, err := b.pool.Room(req, noon); !errors.Is(err, &gpuslots.Refusal{Reason: gpuslots.NeverFits}) {
			t.Errorf("%s: room says %v", want, err)
		}
	}
	for _, req := range []job.Requirements{
		{GPUs: 2, GPUModels: []string{"H100", "a100"}, MinCapability: "8.0", Machine: "gpu01"},
		{GPUs: 1, Frameworks: []string{"jax"}, Constraints: map[string]string{"rack": "a"}},
		{GPUs: 1, GPUIDs: []string{uuid(1)}, CPUs: 8, MemoryMB: 64000, GPUMemoryMB: 24576},
	} {
		if err := b.pool.CanEver(req); err != nil {
			t.Errorf("%+v: %v", req, err)
		}
	}
	a := b.get("1", job.Requirements{GPUs: 1, Frameworks: []string{"jax"}})
	if index(a) != 1 {
		t.Errorf("jax sees GPU 1 only, got %d", index(a))
	}
}

func TestNonsenseIsNoRefusal(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	for _, req := range []job.Requirements{{GPUs: -1}, {GPUs: 1, GPUMemoryMB: -5}, {GPUs: 1, MinCapability: "new"}} {
		err := b.pool.CanEver(req)
		if _, isRefusal := gpuslots.AsRefusal(err); err == nil || isRefusal {
			t.Errorf("%+v: %v", req, err)
		}
	}
	if _, err := b.try("", alone(0)); err == nil {
		t.Error("a request without a holder was granted")
	}
	b.get("1", alone(0))
	if _, err := b.try("1", job.Requirements{}); !errors.Is(err, gpuslots.ErrHolderBusy) {
		t.Errorf("the same holder twice: %v", err)
	}
}

func TestReleaseOfWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	a := b.get("1", alone(0))
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	b.look(0)
	again := b.get("1", alone(0))
	if err := a.Release(); !errors.Is(err, gpuslots.ErrNotHeld) {
		t.Errorf("the old allocation of the same holder: %v", err)
	}
	if got := b.pool.Stats().TotalActive; got != 1 {
		t.Errorf("the new one was touched: %d active", got)
	}
	if err := b.pool.Release("stranger"); !errors.Is(err, gpuslots.ErrNotHeld) {
		t.Errorf("a stranger: %v", err)
	}
	if err := b.pool.Release("1"); err != nil || !errors.Is(again.Release(), gpuslots.ErrNotHeld) {
		t.Errorf("by name: %v", err)
	}
}

func TestHostIsCounted(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{CPUs: 4, MemoryMB: 16000})
	b.get("gpu", job.Requirements{GPUs: 1, CPUs: 3, MemoryMB: 10000})
	if r := b.refused(gpuslots.Resources, job.Requirements{CPUs: 2}); r.Error() != "needs 2 CPUs; 1 of 4 are free" {
		t.Errorf("got %v", r)
	}
	b.refused(gpuslots.Resources, job.Requirements{MemoryMB: 7000})
	for _, holder := range []string{"a", "b", "c", "d"} { // as many jobs without a GPU as CPUs
		b.get(holder, job.Requirements{})
	}
	b.refused(gpuslots.Resources, job.Requirements{})
	if err := b.pool.Release("gpu"); err != nil {
		t.Fatal(err)
	}
	if err := b.pool.Release("a"); err != nil {
		t.Fatal(err)
	}
	b.get("wide", job.Requirements{CPUs: 4, MemoryMB: 16000})
}

// Preferred cards come first, but after everything that speaks against them, and never instead of others.
func TestPrefer(t *testing.T) {
	t.Parallel()
	b := newBox(t, 3, gpuslots.Options{})
	now := b.clock()
	get := func(holder string, r gpuslots.Request) int {
		r.Holder, r.Req, r.Now = holder, alone(0), now
		a, err := b.pool.TryAcquire(r)
		if err != nil {
			t.Fatal(err)
		}
		return index(a)
	}
	if got := get("1", gpuslots.Request{Prefer: []string{uuid(2)}}); got != 2 {
		t.Errorf("preferred GPU 2, got %d", got)
	}
	if got := get("2", gpuslots.Request{Prefer: []string{uuid(0), uuid(2)}, Avoid: []string{uuid(0)}}); got != 1 {
		t.Errorf("GPU 0 is preferred and to be avoided, 2 is taken; got %d", got)
	}
	if got := get("3", gpuslots.Request{Prefer: []string{uuid(2)}}); got != 0 {
		t.Errorf("what it prefers is taken, so it gets GPU 0; got %d", got)
	}
}

func TestAvoidAndExclude(t *testing.T) {
	t.Parallel()
	b := newBox(t, 2, gpuslots.Options{})
	now := b.clock()
	a, err := b.pool.TryAcquire(gpuslots.Request{Holder: "1", Req: alone(0), Now: now, Avoid: []string{uuid(0)}})
	if err != nil || index(a) != 1 {
		t.Fatalf("%v %v", a, err)
	}
	if _, err = b.pool.TryAcquire(gpuslots.Request{Holder: "2", Req: alone(0), Now: now, Exclude: []string{uuid(0)}}); !errors.Is(err, &gpuslots.Refusal{Reason: gpuslots.Resources}) {
		t.Errorf("excluded: %v", err)
	}
	if _, err = b.pool.TryAcquire(gpuslots.Request{Holder: "2", Req: alone(0), Now: now, Avoid: []string{uuid(0)}}); err != nil {
		t.Errorf("avoided, but the last one: %v", err)
	}
}

func TestMinScore(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{MinScore: 0.5, Foreign: gpuslots.ForeignIgnore})
	b.processes(0, 0, theirs(7, 18432))
	b.cards[0].UtilizationPercent = ptr(50.0)
	b.look(time.Second)
	r := b.refused(gpuslots.Resources, alone(1000))
	if !strings.Contains(r.Error(), "scores 0.35, below the limit of 0.50") {
		t.Errorf("got %v", r)
	}
}

func TestBidLeavesWholeMachinesFree(t *testing.T) {
	t.Parallel()
	idle, busy := newBox(t, 8, gpuslots.Options{}), newBox(t, 8, gpuslots.Options{})
	busy.get("1", job.Requirements{GPUs: 7})
	a, errA := idle.pool.Bid(alone(0), noon)
	b, errB := busy.pool.Bid(alone(0), noon)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.WholeLeft != 7 || b.WholeLeft != 0 || b.Priority >= a.Priority {
		t.Errorf("idle machine %+v, nearly full machine %+v", a, b)
	}
	if _, err := busy.pool.Bid(job.Requirements{GPUs: 2}, noon); err == nil {
		t.Error("a bid without room")
	}
}

func TestMIGAndUnknownGauges(t *testing.T) {
	t.Parallel()
	one := 1
	b := newBox(t, 0, gpuslots.Options{Devices: []telemetry.Device{
		{UUID: "MIG-b", Index: 0, Instance: &one, Name: "NVIDIA A100 MIG 3g.40gb", MemoryTotalMB: 40000, Parent: "GPU-a"},
	}})
	b.cards[0].UtilizationPercent = nil
	b.look(time.Second)
	a := b.get("1", job.Requirements{GPUs: 1, GPUIDs: []string{"0.1"}})
	if a.Scores[0] != 1 || a.Details[0].UtilizationPercent != nil {
		t.Errorf("score %v, details %+v", a.Scores, a.Details)
	}
	if _, there := b.pool.Stats().PerGPU["0.1"]; !there {
		t.Errorf("got %+v", b.pool.Stats())
	}
}

func TestChangedTellsOfRoom(t *testing.T) {
	t.Parallel()
	b := newBox(t, 2, gpuslots.Options{})
	a := b.get("1", job.Requirements{GPUs: 2})
	must := func(what string, want bool, do func()) {
		t.Helper()
		changed := b.pool.Changed()
		do()
		select {
		case <-changed:
			if !want {
				t.Errorf("%s: woken for nothing", what)
			}
		default:
			if want {
				t.Errorf("%s: not woken", what)
			}
		}
	}
	must("a reading like the last one", false, func() { b.look(time.Second) })
	must("a release", true, func() { _ = a.Release() })
	must("the reading after it", true, func() { b.look(time.Second) })
	must("a foreign process comes", false, func() { b.processes(0, 0, theirs(7, 20000)); b.look(time.Second) })
	must("it goes", true, func() { b.processes(0, 0); b.look(time.Second) })
	must("a quarantine", false, func() { _ = b.pool.Quarantine(uuid(0), "tests") })
	must("its end", true, func() { _ = b.pool.Unquarantine(uuid(0)) })
	must("a drain", false, func() { b.pool.Drain(true) })
	must("its end", true, func() { b.pool.Drain(false) })
}

// Time alone makes room too; the first reading after it tells.
func TestChangedTellsOfTimePassed(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(b *box){
		"a warm-up ends": func(b *box) { b.get("1", shared(0)); b.processes(0, 0, ours("1", 100)) },
		"a card heals":   func(b *box) { _ = b.pool.Shrink(uuid(0), noon.Add(time.Minute)) },
		"a run has left": func(b *box) { _ = b.get("1", alone(0)).Release() },
		"a process has":  func(b *box) { b.processes(0, 0, theirs(7, 1000)); b.look(0); b.processes(0, 0); b.look(0) },
		"a quarantine has": func(b *box) {
			_ = b.pool.Quarantine(uuid(0), "x")
			b.look(0)
			_ = b.pool.Unquarantine(uuid(0))
			_ = b.pool.Quarantine(uuid(0), "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 2})
			fill(b)
			changed := b.pool.Changed()
			b.look(time.Minute)
			select {
			case <-changed:
				if strings.HasPrefix(name, "a quarantine") {
					t.Error("woken for a card that is out of service")
				}
			default:
				if !strings.HasPrefix(name, "a quarantine") {
					t.Error("nobody was told")
				}
			}
		})
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := gpuslots.New(gpuslots.Options{
		Devices: append(devices(1, 1), devices(1, 1)...), SlotsPerGPU: -1, MaxUtil: 101, MinScore: 2, Placement: "luck",
		Foreign: "shoot", Weights: gpuslots.Weights{Memory: -1}, ForeignIgnore: []string{"["}, CPUs: -1,
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"twice", "slots per GPU: -1", "max-util: 101", "min-score: 2", `"luck"`, `"shoot"`, "weights: -1", `"["`, "negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
