package submit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fleet() []queue.Machine {
	gpu := func(i int, name string, mb int64, cap string) queue.GPU {
		return queue.GPU{UUID: "GPU-0000000" + string(rune('0'+i)) + "-0000-0000-0000-000000000000", Index: i, Name: name, MemoryTotalMB: mb,
			ComputeCapability: cap, Slots: 2, State: "ready"}
	}
	return []queue.Machine{
		{Name: "small", CPUs: 8, MemoryMB: 16384, NoContainers: "there is no container engine at /x.sock", GPUs: []queue.GPU{gpu(0, "NVIDIA A10", 23028, "8.6"), gpu(1, "NVIDIA A10", 23028, "8.6")}},
		{Name: "big", CPUs: 64, MemoryMB: 262144, Containers: "container engine 28", Labels: map[string]string{"rack": "a"}, GPUs: []queue.GPU{gpu(2, "NVIDIA H100 80GB HBM3", 81559, "9.0")}},
	}
}

// What the fleet could run some day is accepted; what it never could is refused with each machine's reason.
func TestImpossible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		req  job.Requirements
		want string // of the refusal; "" = accepted
	}{
		{"no GPU", job.Requirements{CPUs: 64}, ""},
		{"two small ones", job.Requirements{GPUs: 2, GPUMemoryMB: 20000}, ""},
		{"a large one", job.Requirements{GPUs: 1, GPUMemoryMB: 70000}, ""},
		{"shared", job.Requirements{GPUs: 1, Share: job.Shared, Slots: 2}, ""},
		{"two large ones", job.Requirements{GPUs: 2, GPUMemoryMB: 70000}, "big has 1"},
		{"all machines together", job.Requirements{GPUs: 3}, "small has 2"},
		{"another model", job.Requirements{GPUs: 1, GPUModels: []string{"A100"}}, "A100"},
		{"too old", job.Requirements{GPUs: 1, MinCapability: "10.0"}, "10.0"},
		{"label", job.Requirements{Constraints: map[string]string{"rack": "b"}}, "rack"},
		{"machine", job.Requirements{Machine: "huge"}, "huge"},
		{"an image", job.Requirements{Container: true, Machine: "big"}, ""},
		{"an image where there is no engine", job.Requirements{Container: true, Machine: "small"}, "small runs no containers: there is no container engine at /x.sock"},
		{"host memory", job.Requirements{MemoryMB: 1 << 20}, "host memory"},
	} {
		why := impossible(fleet(), job.Job{Requirements: c.req})
		if c.want == "" && why != "" || c.want != "" && !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, why, c.want)
		}
	}
	group := job.Job{Tasks: &job.Tasks{Requirements: []job.Requirements{{GPUs: 1}, {GPUs: 9}}}}
	if why := impossible(fleet(), group); why == "" {
		t.Error("a group whose second task fits nowhere was accepted")
	}
	if got, want := fleetText(fleet()), "small: 2 x NVIDIA A10 (22.5 GiB), 8 cores; big: 1 x NVIDIA H100 80GB HBM3 (79.6 GiB), 64 cores"; got != want {
		t.Errorf("fleet: %q\nwant   %q", got, want)
	}
}

func TestWishes(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]job.Requirements{
		"CPU only":                           {},
		"CPU only, 8 cores":                  {CPUs: 8},
		"1 GPU with 20 GiB":                  {GPUs: 1, GPUMemoryMB: 20480},
		"2 GPUs (A100 or H100)":              {GPUs: 2, GPUModels: []string{"A100", "H100"}},
		"2 GPUs with 20 GiB each, shared":    {GPUs: 2, GPUMemoryMB: 20480, Share: job.Shared},
		"1 GPU, 64 GiB of host memory, on x": {GPUs: 1, MemoryMB: 65536, Machine: "x"},
	} {
		if got := wishes(r); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	if got, want := commandLine(job.Command{"sh", "-c", "echo it's $X", ""}), `sh -c 'echo it'\''s $X' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A model's config.json is found by path and in the Hugging Face cache, the newest snapshot first.
func TestFindConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, text string, age time.Duration) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	write("local/config.json", "local", 0)
	write("hub/models--org--name/snapshots/a/config.json", "old", time.Hour)
	write("hub/models--org--name/snapshots/b/config.json", "new", time.Minute)
	env := cli.Env{Environ: []string{"HF_HUB_CACHE=" + filepath.Join(dir, "hub")}}
	for id, want := range map[string]string{"local": "local", "local/config.json": "local", "org/name": "new", "org/other": "", "": "", "[": ""} {
		c, found := findConfig(id, env, dir)
		if string(c.JSON) != want || found != (want != "") {
			t.Errorf("%q: %q, %v; want %q", id, c.JSON, found, want)
		}
		if found && c.Local != strings.HasPrefix(id, "local") {
			t.Errorf("%q: local is %v", id, c.Local)
		}
	}
}

// What a dry run prints can be read by a program.
func ExampleRoot() {
	env := cli.Env{
		Args: []string{"--dry-run", "-o", "json", "-g", "2", "-m", "20Gi", "--", "python", "train.py"},
		Dir:  "/home/ada", User: "ada", Environ: []string{"BERTH_SERVER=nats://127.0.0.1:1"}, // nobody listens
		Now: time.Now, Stdin: &bytes.Buffer{}, Stdout: os.Stdout, Stderr: os.Stderr,
		Notify: func(chan<- os.Signal, ...os.Signal) {},
	}
	cli.Execute(context.Background(), Root(env), env)
	// Output:
	// {
	//   "version": 1,
	//   "gpus": 2,
	//   "gpu_memory_mb": 20480,
	//   "method": "explicit",
	//   "why": "resources.gpus: 2; resources.gpu_memory: 20480 MiB"
	// }
}
