package operator

import (
	"slices"
	"testing"

	"github.com/berthq/berth/queue"
)

func gpu(util float64, freeMB int64, state string) queue.GPU {
	score := 0.6*float64(freeMB)/24000 + 0.4*(100-util)/100
	return queue.GPU{UtilizationPercent: &util, MemoryFreeMB: &freeMB, MemoryTotalMB: 24000, Score: &score, State: state, Slots: 1}
}

func TestBestMachineFirst(t *testing.T) {
	t.Parallel()
	all := []queue.Machine{
		{Name: "a-degraded", GPUs: []queue.GPU{{MemoryTotalMB: 24000, State: "unreadable"}}},
		{Name: "b-busy", GPUs: []queue.GPU{gpu(95, 1000, "ready")}},
		{Name: "c-cpu"},
		{Name: "d-draining", Draining: true, GPUs: []queue.GPU{gpu(0, 24000, "ready"), gpu(0, 24000, "ready")}},
		{Name: "e-two", GPUs: []queue.GPU{gpu(10, 20000, "ready"), gpu(10, 20000, "ready")}},
		{Name: "f-emptier", GPUs: []queue.GPU{gpu(0, 24000, "ready"), gpu(0, 24000, "ready")}},
		{Name: "g-degraded", GPUs: []queue.GPU{{MemoryTotalMB: 24000, State: "unreadable"}}},
	}
	var names []string
	for _, s := range rank(all, true) {
		names = append(names, s.Name)
	}
	want := []string{"f-emptier", "e-two", "b-busy", "c-cpu", "a-degraded", "g-degraded", "d-draining"}
	if !slices.Equal(names, want) {
		t.Errorf("%v\nwant %v", names, want)
	}
	for i, s := range rank(all, false) {
		if s.Name != all[i].Name {
			t.Errorf("without ranking, place %d is %s", i, s.Name)
		}
		if s.Degraded != (s.Name == "a-degraded" || s.Name == "g-degraded") {
			t.Errorf("%s: degraded %v", s.Name, s.Degraded)
		}
	}
}

func TestIdleByTheFoundingCriterion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		gpu  queue.GPU
		want bool
	}{
		{"empty", gpu(0, 24000, "ready"), true},
		{"just under both", gpu(29.9, 12001, "ready"), true},
		{"utilisation at the limit", gpu(30, 24000, "ready"), false},
		{"memory at the limit", gpu(0, 12000, "ready"), false},
		{"quarantined", gpu(0, 24000, "quarantined"), false},
		{"unknown", queue.GPU{MemoryTotalMB: 24000, State: "ready"}, false},
	} {
		if got := idle(c.gpu); got != c.want {
			t.Errorf("%s: idle %v", c.what, got)
		}
	}
}
