package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/container/enginetest"
	"github.com/berthq/berth/runner/proc"
)

const (
	patience = enginetest.Patience
	gpuA     = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
	gpuB     = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
)

// yard is one engine and one runner, shared by the tests of this file.
type yard struct {
	*testing.T
	engine *enginetest.Engine
	*Engine
	store string
	r     *runner.Process
}

func newYard(t *testing.T) *yard {
	e := enginetest.Start(t, gpuA, gpuB)
	t.Logf("engine %s, CDI %v", e.Version, e.CDI)
	y := &yard{T: t, engine: e, store: t.TempDir()}
	var err error
	if y.Engine, err = Open(e.Socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = y.Close() })
	if y.r, err = runner.New(runner.Options{StoreDir: y.store}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = y.r.Close() })
	// As NVIDIA's images, it says that it wants all GPUs.
	e.Image("local/job:1", `ENTRYPOINT ["/job"]`, "ENV NVIDIA_VISIBLE_DEVICES=all IN_IMAGE=yes")
	e.Image("local/bare:1")
	return y
}

func (y *yard) plan(id string, words ...string) Plan {
	return Plan{Run: id, Store: y.store, Engine: y.Host(), Dir: y.r.StateDir(id), Image: "local/job:1", Command: words,
		Network: "none", Grace: 2 * time.Second}
}

func (y *yard) start(p Plan) *runner.Handle {
	y.Helper()
	env, err := p.Environment()
	if err != nil {
		y.Fatal(err)
	}
	h, err := y.r.Start(y.Context(), runner.Run{
		ID: p.Run, Command: Command(p.Run), Env: env, Dir: "/", Grace: p.Grace, After: p.After(),
	})
	if err != nil {
		y.Fatal(err)
	}
	return h
}

// end waits for the end, and demands that no container is left then.
func (y *yard) end(h *runner.Handle) (exit runner.Exit, stdout, stderr string) {
	y.Helper()
	ctx, cancel := context.WithTimeout(y.Context(), patience)
	defer cancel()
	exit, err := h.Wait(ctx)
	if err != nil {
		y.Fatal(err)
	}
	if left := y.engine.Containers(); len(left) != 0 {
		y.Errorf("containers are left at the end of the run: %v", left)
	}
	var out, errs strings.Builder
	lr := h.Log(0)
	defer lr.Close()
	for {
		f, err := lr.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			y.Fatal(err)
		}
		if f.Stream == runner.Stdout {
			out.Write(f.Data)
		} else {
			errs.Write(f.Data)
		}
	}
	if err := h.Release(); err != nil {
		y.Error(err)
	}
	return exit, out.String(), errs.String()
}

// until waits for a line of the job.
func (y *yard) until(h *runner.Handle, line string) {
	y.Helper()
	ctx, cancel := context.WithTimeout(y.Context(), patience)
	defer cancel()
	lr := h.Log(0)
	defer lr.Close()
	for {
		f, err := lr.Next(ctx)
		if err != nil {
			y.Fatalf("no line %q: %v", line, err)
		}
		if strings.Contains(string(f.Data), line) {
			return
		}
	}
}

// eventually looks until it is so: what the engine and the kernel do on their own sends no word.
func (y *yard) eventually(what string, is func() bool) {
	y.Helper()
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			y.Fatal("never: " + what)
		}
	}
}

// helperOf is the process of the run that stands for the container.
func (y *yard) helperOf(h *runner.Handle) int {
	y.Helper()
	for _, pid := range h.PIDs() {
		if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(args), Arg) {
			return pid
		}
	}
	y.Fatal("the run has no helper")
	return 0
}

func TestWithARealEngine(t *testing.T) {
	y := newYard(t)
	for _, c := range []struct {
		name string
		test func(*yard)
	}{
		{"streams, environment and exit code", streams},
		{"files belong to the person", belongs},
		{"folders, shared memory, read-only volumes", folders},
		{"memory limit", memoryLimit},
		{"stop asks first", stopAsks},
		{"one that ignores the stop", stopInsists},
		{"a killed helper and a killed shim leave nothing", killed},
		{"a new worker adopts it", adopted},
		{"images that are not there", noImage},
		{"what registries answer", registries},
		{"commands that are not there", noCommand},
		{"GPUs by CDI", gpusByCDI},
		{"GPUs by the hook", gpusByHook},
		{"its processes are the run's", processes},
		{"what was left is swept", strays},
		{"the engine goes away", engineGoes}, // last
	} {
		t.Run(c.name, func(t *testing.T) {
			mine := *y
			mine.T = t
			c.test(&mine)
		})
	}
}

func streams(y *yard) {
	p := y.plan("1.1", "out=hello", "err=there", "env=A", "env=IN_IMAGE", "env=NVIDIA_VISIBLE_DEVICES", "env=CUDA_VISIBLE_DEVICES", "exit=3")
	p.Env = []string{"A=b", "CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"}
	exit, out, errs := y.end(y.start(p))
	want := "hello\nA=b\nIN_IMAGE=yes\nNVIDIA_VISIBLE_DEVICES=void\nCUDA_VISIBLE_DEVICES=\n"
	if exit.Code != 3 || exit.NotStarted != nil || exit.Cause != "" || out != want || errs != "there\n" {
		y.Errorf("%+v\n%s\n%s", exit, out, errs)
	}
	if len(exit.Warnings) != 0 {
		y.Errorf("warnings: %q", exit.Warnings)
	}
}

func belongs(y *yard) {
	dir := y.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, 12345, 23456)); err != nil {
		y.Fatal(err)
	}
	p := y.plan("2.1", "who", "write=/w/f:x", "write=$BERTH_RESULT_FILE:{}")
	p.User, p.Groups = "12345:23456", []string{"777"}
	job := filepath.Dir(runner.ResultFile(p.Dir))
	p.Owned, p.Volumes = []string{job}, []string{dir + ":/w", job + ":" + job}
	p.Env = []string{"BERTH_RESULT_FILE=" + runner.ResultFile(p.Dir)}
	exit, out, errs := y.end(y.start(p))
	info, err := os.Stat(dir + "/f")
	if err != nil || exit.Code != 0 {
		y.Fatalf("%v %+v %q %q", err, exit, out, errs)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 12345 || st.Gid != 23456 || !strings.HasPrefix(out, "12345 23456 [") || !strings.Contains(out, "777") {
		y.Errorf("uid %d, gid %d, the job says %q", st.Uid, st.Gid, out)
	}
	if string(exit.Output) != "{}" {
		y.Errorf("result file: %q", exit.Output)
	}
}

func folders(y *yard) {
	dir := y.TempDir()
	p := y.plan("3.1", "here", "shm", "write=/w/f:x")
	p.Workdir, p.ShmMB, p.Volumes = "/w", 48, []string{dir + ":/w:ro"}
	exit, out, _ := y.end(y.start(p))
	if exit.Code != 9 || !strings.HasPrefix(out, "/w <nil>\nshm 48 <nil>\n") || !strings.Contains(out, "read-only") {
		y.Errorf("%+v %q", exit, out)
	}
}

func memoryLimit(y *yard) {
	p := y.plan("4.1", "eat=256")
	p.MemoryMB = 32
	exit, _, errs := y.end(y.start(p))
	if exit.Code != 137 || exit.OOMKills != 1 || exit.NotStarted != nil {
		y.Errorf("%+v %q", exit, errs)
	}
	p = y.plan("4.2", "eat=64", "wait")
	p.MemoryMB = 256
	h := y.start(p)
	y.until(h, "waiting")
	inside := filepath.Join(p.Dir, runner.InsideFile)
	y.eventually("it is found where the container's memory is counted", func() bool {
		text, _ := os.ReadFile(inside)
		return strings.Contains(string(text), `"group"`)
	})
	_ = h.Stop(runner.Cancelled, "test")
	exit, _, errs = y.end(h)
	if exit.PeakMemoryMB == nil || *exit.PeakMemoryMB < 60 || *exit.PeakMemoryMB > 256 || exit.CPUSeconds <= 0 {
		y.Errorf("counted: %v MiB, %v s; %q", exit.PeakMemoryMB, exit.CPUSeconds, errs)
	}
}

func stopAsks(y *yard) {
	h := y.start(y.plan("5.1", "wait", "exit=7"))
	y.until(h, "waiting")
	_ = h.Stop(runner.Cancelled, "test")
	exit, out, _ := y.end(h)
	if exit.Code != 7 || exit.Cause != runner.Cancelled || !strings.Contains(out, "asked") {
		y.Errorf("%+v %q", exit, out)
	}
}

func stopInsists(y *yard) {
	h := y.start(y.plan("6.1", "child", "stay"))
	y.until(h, "waiting")
	_ = h.Stop(runner.Cancelled, "test")
	exit, _, errs := y.end(h)
	if exit.Code != 137 || exit.Signal != "" || exit.Cause != runner.Cancelled { // the helper's own exit, not its death
		y.Errorf("%+v %q", exit, errs)
	}
}

// killed: however the run's processes end, the container has ended before its locks are free.
func killed(y *yard) {
	h := y.start(y.plan("7.1", "stay"))
	y.until(h, "waiting")
	_ = h.Kill(runner.Cancelled, "test") // the helper dies before it can stop anything
	if exit, _, _ := y.end(h); exit.Cause != runner.Cancelled || len(exit.Warnings) != 0 {
		y.Errorf("helper killed: %+v", exit)
	}

	h = y.start(y.plan("7.2", "stay"))
	y.until(h, "waiting")
	stat, err := proc.Read(y.helperOf(h))
	if err != nil {
		y.Fatal(err)
	}
	if err := syscall.Kill(stat.PPID, syscall.SIGKILL); err != nil { // the shim
		y.Fatal(err)
	}
	if exit, _, _ := y.end(h); exit.Cause != runner.ShimLost || len(exit.Warnings) != 0 {
		y.Errorf("shim killed: %+v", exit)
	}
}

func adopted(y *yard) {
	h := y.start(y.plan("8.1", "wait", "exit=5"))
	y.until(h, "waiting")
	h.Detach()
	all, lost, err := y.r.Adopt(y.Context())
	if err != nil || len(all) != 1 || len(lost) != 0 {
		y.Fatalf("%v %v %v", all, lost, err)
	}
	_ = all[0].Stop(runner.Cancelled, "test")
	if exit, out, _ := y.end(all[0]); exit.Code != 5 || !strings.Contains(out, "asked") {
		y.Errorf("%+v %q", exit, out)
	}
}

func noImage(y *yard) {
	for i, c := range []struct {
		image string
		pull  Pull
		want  string
	}{
		{"local/none:1", PullNever, "image local/none:1 is not on this machine, and `pull: never` forbids fetching it"},
		{"127.0.0.1:1/none:1", PullMissing, "(the registry cannot be reached from this machine)"},
		{"127.0.0.1:1/job:1", PullAlways, "image 127.0.0.1:1/job:1 cannot be fetched: "},
		{"Not//an image", "", "image"},
	} {
		p := y.plan("9."+strconv.Itoa(i), "exit=0")
		p.Image, p.Pull = c.image, c.pull
		exit, _, errs := y.end(y.start(p))
		if exit.NotStarted == nil || exit.NotStarted.Code != CodeEngine || !strings.Contains(exit.NotStarted.Reason, c.want) || !strings.Contains(errs, c.want) {
			y.Errorf("%s: %+v\n%+v %q", c.image, exit.NotStarted, exit, errs)
		}
	}
}

func noCommand(y *yard) {
	for i, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"/nothing", codeNotFound, "No such file"},
		{"nothing", codeNotFound, "No such file"},
		{"/tmp", codeNotExec, "Permission denied"},
	} {
		p := y.plan("10."+strconv.Itoa(i), c.command)
		p.Image = "local/bare:1"
		exit, _, errs := y.end(y.start(p))
		if exit.Code != c.code || !strings.Contains(errs, c.want) {
			y.Errorf("%q: %+v %q", c.command, exit, errs)
		}
	}
	p := y.plan("10.9", "exit=0")
	p.Workdir = "/job/below" // no folder: the runtime cannot go there
	exit, _, errs := y.end(y.start(p))
	if n := exit.NotStarted; n == nil || !strings.Contains(n.Reason, "/job/below") || !strings.Contains(errs, n.Reason) {
		y.Errorf("%+v\n%+v %q", n, exit, errs)
	}
}

func gpusByCDI(y *yard) {
	ability, err := y.Look(y.Context())
	if err != nil {
		y.Fatal(err)
	}
	if !y.engine.CDI {
		if ability.Method != Capability {
			y.Errorf("an engine without CDI is asked by %s", ability.Method)
		}
		y.Skipf("DID NOT RUN: engine %s does not know CDI (25 does)", y.engine.Version)
	}
	if ability.For([]string{gpuB}) != CDI {
		y.Errorf("GPUs by %s: %+v", ability.For([]string{gpuB}), ability)
	}
	p := y.plan("11.1", "env=CDI_GPU_0", "env=CDI_GPU_1", "env=NVIDIA_VISIBLE_DEVICES", "env=CUDA_VISIBLE_DEVICES")
	p.GPUs, p.GPUMethod, p.Env = []string{gpuB}, CDI, []string{"CUDA_VISIBLE_DEVICES=" + gpuB}
	exit, out, errs := y.end(y.start(p))
	if exit.Code != 0 || out != "CDI_GPU_0=\nCDI_GPU_1="+gpuB+"\nNVIDIA_VISIBLE_DEVICES=void\nCUDA_VISIBLE_DEVICES=\n" {
		y.Errorf("%+v %q %q", exit, out, errs)
	}
	p = y.plan("11.2", "exit=0")
	p.GPUs, p.GPUMethod = []string{"GPU-unknown"}, CDI
	exit, _, errs = y.end(y.start(p))
	if exit.NotStarted == nil || !strings.Contains(exit.NotStarted.Reason, "nvidia.com/gpu=GPU-unknown") {
		y.Errorf("a GPU that the engine does not know: %+v %q", exit, errs)
	}
}

func gpusByHook(y *yard) {
	p := y.plan("12.1", "env=NVIDIA_VISIBLE_DEVICES", "env=CUDA_VISIBLE_DEVICES")
	p.GPUs, p.GPUMethod, p.Env = []string{gpuA, gpuB}, Capability, []string{"CUDA_VISIBLE_DEVICES=" + gpuA, "NVIDIA_VISIBLE_DEVICES=" + gpuA}
	exit, out, errs := y.end(y.start(p))
	if exit.Code != 0 || out != "NVIDIA_VISIBLE_DEVICES="+gpuA+","+gpuB+"\nCUDA_VISIBLE_DEVICES=\n" {
		y.Errorf("%+v %q %q", exit, out, errs)
	}
}

func processes(y *yard) {
	h := y.start(y.plan("13.1", "child", "wait"))
	y.until(h, "waiting")
	helper := y.helperOf(h)
	y.eventually("the processes in the container are the run's", func() bool {
		jobs := slices.DeleteFunc(h.PIDs(), func(pid int) bool {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return pid == helper || !strings.HasPrefix(string(args), "/job\x00")
		})
		return len(jobs) == 2
	})
	_ = h.Stop(runner.Cancelled, "test")
	y.end(h)
	if pids := h.PIDs(); len(pids) != 0 {
		y.Errorf("an ended run has processes: %v", pids)
	}
}

func strays(y *yard) {
	p := y.plan("14.1", "stay")
	h := y.start(p)
	y.until(h, "waiting")
	over := func(run string) bool { return run == "14.1" }
	for _, c := range []struct {
		store string
		over  func(string) bool
	}{{"/another", over}, {y.store, func(string) bool { return false }}} {
		if runs, err := y.Strays(y.Context(), c.store, c.over); len(runs) != 0 || err != nil {
			y.Fatalf("a sweep of %s took %v: %v", c.store, runs, err)
		}
	}
	if runs, err := y.Strays(y.Context(), y.store, over); !slices.Equal(runs, []string{"14.1"}) || err != nil {
		y.Fatalf("the sweep took %v: %v", runs, err)
	}
	y.end(h)
}

func engineGoes(y *yard) {
	if os.Getenv("BERTH_LONG") == "" {
		y.Skip("DID NOT RUN: an engine that is killed and comes back takes 10 s; set BERTH_LONG=1 (make test-all)")
	}
	h := y.start(y.plan("15.1", "wait"))
	y.until(h, "waiting")
	helper := y.helperOf(h)
	y.engine.Kill()
	if _, err := y.Look(y.Context()); err == nil || !strings.Contains(err.Error(), y.engine.Socket) {
		y.Errorf("look at an engine that is gone: %v", err)
	}
	y.eventually("the helper ends", func() bool { _, err := proc.Read(helper); return err != nil })
	select {
	case <-h.Done():
		y.Error("the run has ended before anybody could remove its container")
	default:
	}
	y.engine.Restart()
	if exit, _, errs := y.end(h); exit.Cause != runner.EngineLost || len(exit.Warnings) != 0 {
		y.Errorf("%+v %q", exit, errs)
	}
}
