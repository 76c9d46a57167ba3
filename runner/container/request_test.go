package container

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
)

func plan() Plan {
	return Plan{Run: "7.1", Store: "o", Dir: "/d", Engine: "unix:///x.sock", Image: "local/job:1"}
}

func TestGPUsAreAskedForByUUID(t *testing.T) {
	t.Parallel()
	for by, want := range map[GPUMethod][]container.DeviceRequest{
		CDI:        {{Driver: "cdi", DeviceIDs: []string{"nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-b"}}},
		Capability: {{DeviceIDs: []string{"GPU-a", "GPU-b"}, Capabilities: [][]string{{"gpu"}}}},
	} {
		p := plan()
		p.GPUs, p.GPUMethod = []string{"GPU-a", "GPU-b"}, by
		p.Env = []string{"A=1", "CUDA_VISIBLE_DEVICES=GPU-a", "NVIDIA_VISIBLE_DEVICES=all", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
		got := request(p)
		if d := cmp.Diff(want, got.HostConfig.DeviceRequests); d != "" {
			t.Errorf("%s: %s", by, d)
		}
		env := map[GPUMethod][]string{CDI: {"A=1", "NVIDIA_VISIBLE_DEVICES=void"}, Capability: {"A=1"}}[by]
		if !slices.Equal(got.Config.Env, env) {
			t.Errorf("%s: environment %v", by, got.Config.Env)
		}
	}
	none := request(plan())
	if got := none.HostConfig.DeviceRequests; got != nil || !slices.Equal(none.Config.Env, []string{"NVIDIA_VISIBLE_DEVICES=void"}) {
		t.Errorf("a job without a GPU asks for %v, environment %v", got, none.Config.Env)
	}
}

func TestLimitsUserAndMounts(t *testing.T) {
	t.Parallel()
	p := plan()
	p.MemoryMB, p.CPUs, p.ShmMB, p.Network, p.User = 64, 2, 128, "none", "1000:1000"
	p.Groups, p.Volumes = []string{"44"}, []string{"/data:/data:ro"}
	got := request(p)
	h := got.HostConfig
	if h.Memory != 64<<20 || h.MemorySwap != h.Memory || h.CPUShares != 2048 || h.ShmSize != 128<<20 || h.NetworkMode != "none" {
		t.Errorf("limits: %+v", h)
	}
	if got.Config.User != "1000:1000" || !slices.Equal(h.GroupAdd, p.Groups) || !slices.Equal(h.Binds, p.Volumes) {
		t.Errorf("who and where: %q %v %v", got.Config.User, h.GroupAdd, h.Binds)
	}
	if h.AutoRemove || !slices.Contains(h.SecurityOpt, "no-new-privileges") {
		t.Errorf("kept until looked at, without new privileges: %+v", h)
	}
	if got.Config.Labels[LabelRun] != "7.1" || got.Config.Labels[LabelStore] != "o" {
		t.Errorf("labels %v", got.Config.Labels)
	}
}

func TestPlansThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Plan){
		"volumes":      func(p *Plan) { p.Volumes = []string{"data:/data"} },
		"neither ro":   func(p *Plan) { p.Volumes = []string{"/a:/b:z"} },
		"pull":         func(p *Plan) { p.Pull = "sometimes" },
		"image":        func(p *Plan) { p.Image = " " },
		"asked for GP": func(p *Plan) { p.GPUs = []string{"GPU-a"} },
	} {
		p := plan()
		change(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestPlanTravelsWhole(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Env = []string{"BIG=" + strings.Repeat("ü", 3*planChunk)}
	env, err := p.Environment()
	if err != nil {
		t.Fatal(err)
	}
	got, err := readPlan(func(key string) string {
		for _, entry := range env {
			if k, v, _ := strings.Cut(entry, "="); k == key {
				return v
			}
		}
		return ""
	})
	if err != nil || !cmp.Equal(p, got) {
		t.Fatalf("%v: %s", err, cmp.Diff(p, got))
	}
}
