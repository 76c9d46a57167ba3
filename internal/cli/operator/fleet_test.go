package operator

import (
	"encoding/json"
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

// What a machine announces gives the same statistics as its own pool counts, in the founding form.
func TestStatisticsInTheFoundingForm(t *testing.T) {
	t.Parallel()
	part := func(uuid string) queue.GPU { return queue.GPU{UUID: uuid, Index: 1, Slots: 1} }
	all := rank([]queue.Machine{
		{Name: "two", GPUs: []queue.GPU{{Index: 0, Slots: 4, Active: 4}, {Index: 1, Slots: 4, Active: 1}}},
		{Name: "none"},
		{Name: "parts", GPUs: []queue.GPU{part("MIG-a"), part("MIG-b")}},
	}, false)
	for i, want := range []string{
		`{"total_gpus":2,"total_capacity":8,"total_active":5,"utilization_percent":62.5,` +
			`"per_gpu":{"0":{"active":4,"capacity":4,"utilization_percent":100},"1":{"active":1,"capacity":4,"utilization_percent":25}}}`,
		`{"total_gpus":0,"total_capacity":0,"total_active":0,"utilization_percent":0,"per_gpu":{}}`,
		`{"total_gpus":2,"total_capacity":2,"total_active":0,"utilization_percent":0,` +
			`"per_gpu":{"1":{"active":0,"capacity":1,"utilization_percent":0},"MIG-b":{"active":0,"capacity":1,"utilization_percent":0}}}`,
	} {
		if got, err := json.Marshal(all[i].Statistics); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v\nwant %s", all[i].Name, got, err, want)
		}
	}
}
