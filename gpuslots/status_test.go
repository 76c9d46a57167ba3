package gpuslots_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
)

// The founding form, to the letter.
func TestStatsJSON(t *testing.T) {
	t.Parallel()
	b := newBox(t, 2, gpuslots.Options{SlotsPerGPU: 4})
	b.get("1", alone(0))
	b.get("2", shared(100))
	got, err := json.Marshal(b.pool.Stats())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"total_gpus":2,"total_capacity":8,"total_active":5,"utilization_percent":62.5,` +
		`"per_gpu":{"0":{"active":4,"capacity":4,"utilization_percent":100},"1":{"active":1,"capacity":4,"utilization_percent":25}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	none, err := gpuslots.New(gpuslots.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, _ = json.Marshal(none.Stats())
	if want := `{"total_gpus":0,"total_capacity":0,"total_active":0,"utilization_percent":0,"per_gpu":{}}`; string(got) != want {
		t.Errorf("no GPU: %s", got)
	}
}

func TestStatusIsACopy(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 2, CPUs: 8, MemoryMB: 1000})
	b.get("1", job.Requirements{GPUs: 1, GPUMemoryMB: 4000, Share: job.Shared, CPUs: 2, MemoryMB: 100})
	b.processes(0, 0, ours("1", 1000), theirs(7, 2000))
	b.look(time.Second)
	before := b.pool.Status(b.clock())
	said, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	spoiled := b.pool.Status(b.clock())
	*spoiled.GPUs[0].FreeMB, *spoiled.GPUs[0].UtilizationPercent = -1, -1
	spoiled.GPUs[0].Foreign[0].PID, spoiled.GPUs[0].Holders[0] = -1, "x"
	again, err := json.Marshal(b.pool.Status(b.clock()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(said), string(again)); diff != "" {
		t.Errorf("somebody else's change came through:\n%s", diff)
	}
	g := before.GPUs[0]
	if g.AvailableMB != 24576-4000-2000 || g.Active != 1 || g.Slots != 2 || g.ForeignMB != 2000 || g.State != gpuslots.StateReady {
		t.Errorf("got %+v", g)
	}
	if before.CPUsUsed != 2 || before.MemoryUsedMB != 100 || !before.ReadAt.Equal(b.clock()) {
		t.Errorf("got %+v", before)
	}
}

func TestAllocationTellsTheResult(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	b.processes(0, 6144)
	b.cards[0].UtilizationPercent = ptr(0.0)
	b.look(time.Second)
	a := b.get("1", alone(1000))
	want := []job.GPUDetail{{
		Index: 0, UUID: uuid(0), Name: "NVIDIA A100-SXM4-80GB",
		MemoryFreeMB: ptr[int64](18432), UtilizationPercent: ptr(0.0), AvailabilityScore: ptr(0.85),
	}}
	if diff := cmp.Diff(want, a.Details); diff != "" || a.Method != "score" {
		t.Errorf("%s %s", a.Method, diff)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBox(t, 2, gpuslots.Options{Machine: "gpu01"})
	b.get("1", alone(0))
	for _, tc := range []struct {
		n    int
		mb   int64
		want gpuslots.Answer
	}{
		{1, 20000, gpuslots.Answer{OK: true, GPUs: []string{uuid(1)},
			Text: "yes: 1 GPU with 20000 MB free: GPU 1 has 24576 of 24576 MB free, score 1.00"}},
		{2, 20000, gpuslots.Answer{
			Text: "no: needs 2 GPUs with 20000 MB free each; only 1 GPU would do: GPU 0 is held by run 1 alone"}},
		{3, 0, gpuslots.Answer{Never: true, Text: "no: needs 3 GPUs; gpu01 has 2"}},
		{0, 0, gpuslots.Answer{OK: true, Text: "yes: no GPU is asked for"}},
	} {
		if diff := cmp.Diff(tc.want, b.pool.Check(tc.n, tc.mb, b.clock())); diff != "" {
			t.Errorf("%d GPUs with %d MB (-want +got):\n%s", tc.n, tc.mb, diff)
		}
	}
	if got := b.pool.Check(-1, 0, b.clock()); got.OK || !got.Never {
		t.Errorf("got %+v", got)
	}
	if got := b.pool.Stats().TotalActive; got != 1 {
		t.Errorf("a question took something: %d active", got)
	}
}
