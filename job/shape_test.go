package job_test

import (
	"regexp"
	"testing"

	"github.com/berthq/berth/job"
)

func TestBands(t *testing.T) {
	t.Parallel()
	for priority, want := range map[int]job.Band{
		0: job.BandLow, 33: job.BandLow, 34: job.BandNormal, 50: job.BandNormal, 66: job.BandNormal, 67: job.BandHigh, 100: job.BandHigh,
	} {
		if got := job.BandOf(priority); got != want {
			t.Errorf("priority %d: band %s, want %s", priority, got, want)
		}
	}
}

// The names are on the wire and in KV: they must not change from one version to the next.
func TestShapeNamesStay(t *testing.T) {
	t.Parallel()
	for want, r := range map[job.ShapeID]job.Requirements{
		"c0-391601b8421d":    {},
		"c4-3ff389c293af":    {CPUs: 4, MemoryMB: 8192},
		"g1-6c668cd8557d":    {GPUs: 1},
		"g1m24-fff6749877ae": {GPUs: 1, GPUMemoryMB: 24000},
		"g8m80-6bc7e06eb743": {GPUs: 8, GPUMemoryMB: 81559, GPUModels: []string{"H100"}},
	} {
		if got := job.ShapeOf(r).ID; got != want {
			t.Errorf("%+v: shape %s, want %s", r, got, want)
		}
	}
}

func TestShapeIsASubjectToken(t *testing.T) {
	t.Parallel()
	token := regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	for _, r := range []job.Requirements{
		{GPUs: 1 << 20, GPUMemoryMB: 1 << 40, CPUs: 1 << 20, MemoryMB: 1 << 40}, {GPUs: -1, CPUs: -1, MemoryMB: -5, GPUMemoryMB: -7},
		{Constraints: map[string]string{"rack>": "*.a b"}, Machine: "Ünï"},
	} {
		if id := job.ShapeOf(r).ID; !token.MatchString(string(id)) {
			t.Errorf("%+v: %q is no subject token", r, id)
		}
	}
}

func TestEqualWishesHaveOneShape(t *testing.T) {
	t.Parallel()
	one := job.Requirements{
		GPUs: 2, GPUMemoryMB: 20000, GPUModels: []string{"A100", "h100"}, Share: job.Exclusive,
		Frameworks: []string{"torch", "cupy"}, Why: "asked for", Method: "explicit", Model: "m", WorldSize: 2, Slots: 3,
	}
	same := job.Requirements{
		GPUs: 2, GPUMemoryMB: 19990, GPUModels: []string{"H100", "a100", "A100"}, Frameworks: []string{"cupy", "torch"},
	}
	if a, b := job.ShapeOf(one), job.ShapeOf(same); a.ID != b.ID {
		t.Errorf("two shapes for one wish:\n%+v\n%+v", a, b)
	}
	cpu := job.Requirements{CPUs: 2, GPUMemoryMB: 5, GPUModels: []string{"A100"}, Share: job.Shared, Balanced: true}
	if a, b := job.ShapeOf(cpu), job.ShapeOf(job.Requirements{CPUs: 2}); a.ID != b.ID {
		t.Errorf("a CPU job's shape hangs on GPU fields: %s, %s", a.ID, b.ID)
	}
}

func TestDifferentWishesHaveDifferentShapes(t *testing.T) {
	t.Parallel()
	seen := map[job.ShapeID]job.Requirements{}
	for _, r := range []job.Requirements{
		{}, {CPUs: 1}, {CPUs: 2}, {MemoryMB: 1024}, {GPUs: 1}, {GPUs: 2}, {GPUs: 2, Balanced: true}, {GPUs: 1, GPUMemoryMB: 8192},
		{GPUs: 1, GPUMemoryMB: 9000}, {GPUs: 1, Share: job.Shared}, {GPUs: 1, Share: job.Shared, Slots: 2}, {GPUs: 1, GPUModels: []string{"a100"}},
		{GPUs: 1, MinCapability: "8.0"}, {GPUs: 1, GPUIDs: []string{"0"}}, {GPUs: 1, Frameworks: []string{"torch"}},
		{GPUs: 1, Machine: "m"}, {GPUs: 1, Constraints: map[string]string{"m": ""}}, {GPUs: 1, Constraints: map[string]string{"m": "1"}},
	} {
		id := job.ShapeOf(r).ID
		if other, taken := seen[id]; taken {
			t.Errorf("%+v and %+v are both %s", r, other, id)
		}
		seen[id] = r
	}
}

// What fits a machine exactly must not be kept from it by rounding, and rounding never takes anything away.
func TestRoundingKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	cards := []int64{8192, 11019, 11264, 15109, 15360, 16160, 16384, 22731, 23028, 23034, 24268, 24564, 24576, 32510, 32607,
		32768, 40536, 40960, 46068, 48682, 49140, 81559, 81920, 95830, 143771, 183359}
	for _, size := range cards {
		for ask := max(1, size-3000); ask <= size; ask++ {
			got := job.ShapeOf(job.Requirements{GPUs: 1, GPUMemoryMB: ask}).Requirements.GPUMemoryMB
			if got < ask || got > size {
				t.Fatalf("a job asking for %d MiB of a card with %d gets a shape of %d", ask, size, got)
			}
		}
	}
	for _, cpus := range []int{1, 2, 3, 6, 12, 20, 28, 48, 56, 64, 72, 96, 104, 112, 127, 128, 192, 224, 256, 384, 448} {
		if got := job.ShapeOf(job.Requirements{CPUs: cpus}).Requirements.CPUs; got != cpus {
			t.Errorf("a job asking for all %d CPUs of a machine gets a shape of %d", cpus, got)
		}
	}
	for mb := int64(1); mb < 3<<20; mb += 997 {
		got := job.ShapeOf(job.Requirements{MemoryMB: mb}).Requirements.MemoryMB
		if got < mb || float64(got) > float64(mb)*(1+1.0/32)+1 {
			t.Fatalf("%d MiB of memory become %d: more than 1/32", mb, got)
		}
	}
}

// A lane for every MiB would be a lane for every job.
func TestRoundingKeepsLanesFew(t *testing.T) {
	t.Parallel()
	shapes := map[job.ShapeID]bool{}
	for mb := int64(16 << 10); mb <= 32<<10; mb++ {
		shapes[job.ShapeOf(job.Requirements{GPUs: 1, GPUMemoryMB: mb}).ID] = true
	}
	if n := len(shapes); n > 110 {
		t.Errorf("16 to 32 GiB make %d shapes", n)
	}
}

func TestShapeOfAShapeIsItself(t *testing.T) {
	t.Parallel()
	for _, r := range []job.Requirements{{GPUs: 2, GPUMemoryMB: 20001, CPUs: 200, MemoryMB: 100_001}, {CPUs: 3, MemoryMB: 77}} {
		a := job.ShapeOf(r)
		if b := job.ShapeOf(a.Requirements); a.ID != b.ID {
			t.Errorf("%s becomes %s when normalised again", a.ID, b.ID)
		}
	}
}
