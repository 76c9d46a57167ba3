package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/container/enginetest"
	"github.com/berthq/berth/telemetry/fakenvml"
)

// A job with an image, from the queue to its result, on a real engine.
func TestJobsInContainers(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	engine := enginetest.Start(t, f.uuids...)
	engine.Image("local/job:1", `ENTRYPOINT ["/job"]`, "ENV NVIDIA_VISIBLE_DEVICES=all")
	d := h.work("titan", f, "--container-socket", engine.Socket, "--runner", "container", "--secrets", h.giveSecret())
	m := h.sees("titan", "its engine", func(m queue.Machine) bool { return m.Containers != "" })
	if !strings.Contains(m.Containers, engine.Version) || strings.Contains(m.Containers, "CDI") != engine.CDI {
		t.Errorf("announced as %q", m.Containers)
	}
	b := box{h, f, engine}
	b.isChecked()
	b.succeeds()
	b.outOfMemory()
	b.noSuchImage()
	b.isCancelled()
	b.keepsSecrets()
	b.isAdopted(d, func() { h.work("titan", f, "--container-socket", engine.Socket) })
	if left := engine.Containers(); len(left) != 0 {
		t.Errorf("containers are left: %v", left)
	}
}

type box struct {
	*house
	fake   *fake
	engine *enginetest.Engine
}

// submitImage queues a job whose program says that it has started, then does what the words say.
func (b *box) submitImage(gpus int, change func(*job.Job), words ...string) queue.Ref {
	b.t.Helper()
	return b.submit(gpus, func(j *job.Job) {
		j.Spec.Command = append(job.Command{"write=" + b.pipe + ":$BERTH_JOB_ID $BERTH_ATTEMPT 1 ${BERTH_GPUS}-"}, words...)
		j.Spec.Image, j.Spec.Container = "local/job:1", &job.Container{Network: "none"}
		j.Requirements.Container = true
		if change != nil {
			change(j)
		}
	})
}

// host is the process of a job in its container, as this machine knows it.
func (b *box) host(ref queue.Ref) int {
	b.t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		env, _ := os.ReadFile(path)
		args, _ := os.ReadFile(filepath.Dir(path) + "/cmdline")
		if strings.HasPrefix(string(args), "/job\x00") && strings.Contains(string(env), "BERTH_JOB_ID="+ref.String()+"\x00") &&
			strings.Contains(string(env), b.dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	b.t.Fatalf("job %s has no process in a container", ref)
	return 0
}

// isChecked: worker check names the engine, and whether it knows this machine's GPUs.
func (b *box) isChecked() {
	cmd := exec.Command(program, "check", "--store", filepath.Join(b.dir, "check"), "--server", b.broker.URL(), "--container-socket", b.engine.Socket)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "XDG_CONFIG_HOME=" + b.dir, "BERTH_WORKER_PYTHON=none", "BERTH_WORKER_ALLOW_ROOT=true"}, b.fake.Env()...)
	out, err := cmd.Output()
	want := "ok       container  container engine " + b.engine.Version + ", GPUs by CDI, at " + b.engine.Socket
	if !b.engine.CDI {
		want = "nvidia-ctk cdi generate"
	}
	if err != nil || !strings.Contains(string(out), want) {
		b.t.Errorf("%v, want %q in\n%s", err, want, out)
	}
}

// succeeds: its GPU, its environment, its files, its result, and its process counted as its own.
func (b *box) succeeds() {
	gate := b.gate()
	result := `{"gpu":"$CDI_GPU_0$CDI_GPU_1","hook":"$NVIDIA_VISIBLE_DEVICES","cuda":"$CUDA_VISIBLE_DEVICES","berth":"$BERTH_GPUS","path":"$PATH","home":"$HOME"}`
	script := func(j *job.Job) { j.Spec.Script = "as it was submitted" }
	ref := b.submitImage(1, script, "read={{.Script}}", "who", "here", "write=mine:x", "write=$BERTH_CHECKPOINT_DIR/kept:x", "write=$BERTH_RESULT_FILE:"+result, "read="+gate)
	s := b.started()
	uuid := strings.TrimSuffix(s.gpus, "-")
	i := b.fake.index(b.t, uuid)
	b.fake.GPU(i).Processes(fakenvml.Process{PID: b.host(ref), MemoryMB: 4096, SM: 70})
	b.fake.GPU(i).Util(70)
	changed := time.Now()
	b.sees("titan", "the process in the container is the job's", func(m queue.Machine) bool {
		g := m.GPUs[i]
		if len(g.Foreign) > 0 {
			b.t.Fatalf("the job's own process is foreign: %v", g.Foreign)
		}
		return m.At.After(changed.Add(2500*time.Millisecond)) && g.UtilizationPercent != nil && *g.UtilizationPercent == 70
	})
	b.open(gate)
	r := b.result(ref)
	b.fake.GPU(i).Processes()
	if r.State != job.Succeeded || r.GPUInfo == nil || !slices.Equal(r.GPUInfo.DeviceIDs, []string{strconv.Itoa(i)}) || r.GPUMonitoring == nil {
		b.t.Fatalf("%+v\n%+v", r, r.GPUInfo)
	}
	cdi, hook := uuid, "void"
	if !b.engine.CDI {
		cdi, hook = "", uuid
	}
	want := fmt.Sprintf(`{"gpu":%q,"hook":%q,"cuda":"","berth":%q,"path":"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin","home":"/tmp"}`, cdi, hook, uuid)
	if string(r.Output) != want {
		b.t.Errorf("in the container: %s\nwant %s", r.Output, want)
	}
	info, err := os.Stat(filepath.Join(b.dir, "mine"))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		b.t.Errorf("its file in its workdir: %v, %+v", err, info)
	}
}

func (b *box) outOfMemory() {
	ref := b.submitImage(0, func(j *job.Job) { j.Requirements.MemoryMB = 32 }, "eat=256")
	b.started()
	if r := b.result(ref); r.Outcome != job.OutcomeOOMHost || r.Exit.Code != 137 {
		b.t.Errorf("%+v", r)
	}
}

func (b *box) noSuchImage() {
	ref := b.submitImage(0, func(j *job.Job) { j.Spec.Image = "127.0.0.1:1/none:1" })
	if r := b.result(ref); r.Outcome != job.OutcomeFailed || !strings.Contains(r.Reason, "image 127.0.0.1:1/none:1 cannot be fetched") {
		b.t.Errorf("%+v", r)
	}
	ref = b.submitImage(0, nil)
	b.started()
	if r := b.result(ref); r.State != job.Succeeded {
		b.t.Errorf("the next job: %+v", r)
	}
}

func (b *box) isCancelled() {
	ref := b.submitImage(1, nil, "child", "wait")
	b.started()
	if _, err := b.queue.Cancel(b.t.Context(), ref, "ann", "had enough"); err != nil {
		b.t.Fatal(err)
	}
	if r := b.result(ref); r.State != job.Cancelled {
		b.t.Errorf("%+v", r)
	}
}

// isAdopted: the worker goes, the run goes on, another worker sees its end.
func (b *box) isAdopted(d *daemon, again func()) {
	gate := b.gate()
	ref := b.submitImage(1, nil, "read="+gate, "exit=3")
	b.started()
	pid := b.host(ref)
	d.detach()
	again()
	if now := b.host(ref); now != pid {
		b.t.Errorf("process %d before the worker's restart, %d after it", pid, now)
	}
	b.open(gate)
	if r := b.result(ref); r.Outcome != job.OutcomeFailed || r.Exit.Code != 3 || r.Attempt != 1 {
		b.t.Errorf("%+v", r)
	}
}

// gate is a FIFO at which a job waits.
func (b *box) gate() string {
	b.t.Helper()
	path := filepath.Join(b.dir, "gate"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// open lets the job through.
func (b *box) open(gate string) {
	b.t.Helper()
	f, err := os.OpenFile(gate, os.O_WRONLY, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	f.Close()
}
