package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr[T any](v T) *T { return &v }

// The first lines: each GPU with model, memory, utilisation, score, slots and state, then what it pulls for.
func TestFirstLines(t *testing.T) {
	t.Parallel()
	r := worker.Ready{Machine: "titan", Source: "nvml", Isolation: "cgroup v2", Adopted: 1, Status: gpuslots.Status{CPUs: 32, GPUs: []gpuslots.GPUStatus{
		{Key: "0", Name: "NVIDIA A10", TotalMB: 24576, FreeMB: ptr(int64(24268)), UtilizationPercent: ptr(0.0), Score: 0.99, Slots: 2, State: "ready"},
		{Key: "1", Name: "NVIDIA A10", TotalMB: 24576, FreeMB: ptr(int64(4096)), UtilizationPercent: ptr(93.0), Score: 0.1, Slots: 2, State: "foreign",
			Foreign: []telemetry.Process{{PID: 7, User: "bob", Command: "python\x1b[2J", MemoryMB: ptr(int64(20480))}}},
		{Key: "2", Name: "NVIDIA A10", TotalMB: 24576, Slots: 2, State: "quarantined", Why: "XID 79"},
	}}}
	var b bytes.Buffer
	if err := firstLines(&b, screen.Terminal{TTY: true, Width: 120}, r, "nats://here"); err != nil {
		t.Fatal(err)
	}
	want := `worker titan on nats://here, GPUs by nvml, runs held by cgroup v2
GPU  MODEL                 FREE  UTIL  SCORE  SLOTS  STATE
0    NVIDIA A10  23.7 of 24 GiB   0 %   0.99    0/2  ready
1    NVIDIA A10     4 of 24 GiB  93 %   0.10    0/2  foreign: foreign bob python\x1b[2J 20 GiB
2    NVIDIA A10               -     -   0.00    0/2  quarantined: XID 79
1 run of the worker before go on
pulls for 6 GPU slots on 3 GPUs (1 ready now), and jobs without a GPU, 32 cores at a time
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
	b.Reset()
	if err := firstLines(&b, screen.Terminal{}, worker.Ready{Machine: "titan"}, "nats://here"); err != nil || !strings.Contains(b.String(), "no GPU found") {
		t.Errorf("without a GPU: %v\n%s", err, &b)
	}
}

// One Ctrl-C ends the claiming, a second one the runs; TERM detaches and stops no run.
func TestSignals(t *testing.T) {
	t.Parallel()
	begin := func() (chan<- os.Signal, Contexts, func()) {
		given := make(chan chan<- os.Signal, 1)
		env := cli.Env{Notify: func(c chan<- os.Signal, _ ...os.Signal) { given <- c }}
		c, stop := Signals(context.Background(), env, &bytes.Buffer{})
		return <-given, c, stop
	}
	send, c, stop := begin()
	send <- os.Interrupt
	<-c.Claim.Done()
	if cause := context.Cause(c.Claim); errors.Is(cause, worker.ErrDetach) || c.Work.Err() != nil {
		t.Errorf("after one Ctrl-C: cause %v, work %v", cause, c.Work.Err())
	}
	send <- os.Interrupt
	<-c.Work.Done()
	stop()

	send, c, stop = begin()
	send <- syscall.SIGTERM
	<-c.Claim.Done()
	if cause := context.Cause(c.Claim); cause != worker.ErrDetach || c.Work.Err() != nil { //nolint:errorlint // the very value is the promise
		t.Errorf("after TERM: cause %v, work %v", cause, c.Work.Err())
	}
	stop()
}

func TestHostMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got := meminfo(write("meminfo", "MemFree: 1 kB\nMemTotal:       24637000 kB\n")); got != 24059 {
		t.Errorf("meminfo: %d MiB, want 24059", got)
	}
	if got := meminfo(filepath.Join(dir, "none")); got != 0 {
		t.Errorf("without meminfo: %d, want unknown", got)
	}
	self := write("self", "1:name=x:/\n0::/slice/unit\n")
	write("fs/slice/memory.max", "2147483648\n")
	write("fs/slice/unit/memory.max", "max\n")
	if got := cgroupLimit(filepath.Join(dir, "fs"), self); got != 2048 {
		t.Errorf("limit of the parent group: %d MiB, want 2048", got)
	}
	if got := cgroupLimit(filepath.Join(dir, "fs"), write("v1", "1:memory:/x\n")); got != 0 {
		t.Errorf("without cgroup v2: %d, want unknown", got)
	}
}

// A run never sees how the worker reaches the broker.
func TestRunEnviron(t *testing.T) {
	t.Parallel()
	got := runEnviron([]string{"PATH=/bin", "BERTH_TOKEN=secret", "BERTH_WORKER_SLOTS=2", "HOME=/home/ada"})
	if !slices.Equal(got, []string{"PATH=/bin", "HOME=/home/ada"}) {
		t.Errorf("runs start from %v", got)
	}
}

// A worker's command is a value like every other: here it only prints its settings.
func ExampleRoot() {
	env := cli.Env{Args: []string{"--config-print", "--name", "titan", "--max-utl", "3"}, Stdout: os.Stdout, Stderr: os.Stdout}
	cli.Execute(context.Background(), Root(env), env)
	// Output:
	// worker: worker has no flag --max-utl
	//   did you mean --max-util?
}
