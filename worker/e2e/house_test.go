package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry/fakenvml"
)

// patience is for a machine that does much else. A wait that takes so long has failed.
const patience = 90 * time.Second

// program is the worker under test, built once.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "10"); err != nil { // they wait, far more than they compute
		panic(err)
	}
	dir, err := os.MkdirTemp("", "berth-e2e-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "worker")
	if _, err := exec.LookPath("gcc"); err != nil {
		fmt.Fprintln(os.Stderr, "NOT RUN: all of worker/e2e: there is no gcc to build the fake NVML library with")
		program = ""
	} else if out, err := exec.Command("go", "build", "-o", program, "github.com/berthq/berth/cmd/worker").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build cmd/worker: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	if err := errors.Join(os.RemoveAll(dir), goleak.Find()); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// house is a whole Berth: a broker and what a test puts around it.
type house struct {
	t      *testing.T
	broker *natstest.Broker
	queue  *queue.Queue
	js     jetstream.JetStream
	pipe   string // where jobs say that they have started
	starts chan start
	dir    string
	worker string // the program that work starts
}

// start is what a job says of itself.
type start struct {
	ref     string
	attempt int
	pid     int
	gpus    string // CUDA_VISIBLE_DEVICES as it found it
}

func newHouse(t *testing.T) *house {
	t.Helper()
	t.Parallel()
	if program == "" {
		t.Skip("NOT RUN: no gcc")
	}
	h := &house{t: t, broker: natstest.New(t), dir: t.TempDir(), starts: make(chan start, 256), worker: program}
	nc := h.broker.Connect()
	var err error
	if h.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	if h.queue, err = queue.Open(t.Context(), nc, h.options()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.queue.Close)
	h.listen()
	return h
}

func (h *house) options() queue.Options {
	return queue.Options{ClaimTTL: time.Minute, AckWait: 2 * time.Second}
}

// listen reads what the jobs say.
func (h *house) listen() {
	h.pipe = filepath.Join(h.dir, "started")
	if err := syscall.Mkfifo(h.pipe, 0o600); err != nil {
		h.t.Fatal(err)
	}
	f, err := os.OpenFile(h.pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var s start
			if _, err := fmt.Sscanf(lines.Text(), "%s %d %d %s", &s.ref, &s.attempt, &s.pid, &s.gpus); err != nil {
				h.t.Errorf("a job says %q: %v", lines.Text(), err)
			}
			h.starts <- s
		}
	}()
	h.t.Cleanup(func() { _ = f.Close(); <-done })
}

// started is the next job that starts.
func (h *house) started() start {
	h.t.Helper()
	select {
	case s := <-h.starts:
		return s
	case <-time.After(patience):
		h.t.Fatal("no job starts")
		return start{}
	}
}

// script is a job that says that it has started, and ends with the code that the test gives it. before runs first.
func (h *house) script(before string) string {
	return before + `
[ -p "go.$BERTH_JOB_ID" ] || mkfifo "go.$BERTH_JOB_ID" || exit 99
echo "$BERTH_JOB_ID $BERTH_ATTEMPT ${PID:-$$} ${CUDA_VISIBLE_DEVICES:--}" > ` + h.pipe + `
read code < "go.$BERTH_JOB_ID"
exit $code
`
}

// submit sends a job with that script; change says what is special about it.
func (h *house) submit(gpus int, change ...func(*job.Job)) queue.Ref {
	h.t.Helper()
	j := job.Job{Project: "lab", User: "ann"}
	j.Spec = job.Spec{Name: h.t.Name(), Workdir: h.dir, Command: job.Command{"sh", "-c", h.script("")}}
	j.Requirements = job.Requirements{GPUs: gpus}
	for _, c := range change {
		c(&j)
	}
	r, err := h.queue.Submit(h.t.Context(), j)
	if err != nil {
		h.t.Fatal(err)
	}
	return queue.JobRef(r.Number)
}

func (h *house) does(script string) func(*job.Job) {
	return func(j *job.Job) { j.Spec.Command = job.Command{"sh", "-c", script} }
}

// end lets a job end with a code.
func (h *house) end(s start, code int) {
	h.t.Helper()
	f, err := os.OpenFile(filepath.Join(h.dir, "go."+s.ref), os.O_RDWR, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, code)
	h.gone(s.pid)
}

// gone waits until a process has ended.
func (h *house) gone(pid int) {
	h.t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is
	}
	defer unix.Close(fd)
	n := 0
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	if err == nil && n == 1 {
		return
	}
	h.t.Fatalf("process %d does not end: %v", pid, err)
}

// result waits for the job's.
func (h *house) result(ref queue.Ref) job.Result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	r, err := h.queue.WaitResult(ctx, ref)
	if err != nil {
		h.t.Fatalf("result of %s: %v", ref, err)
	}
	return r
}

// state is the job's state now; a job that no worker has touched is queued.
func (h *house) state(ref queue.Ref) job.State {
	h.t.Helper()
	v, err := h.queue.Show(h.t.Context(), ref)
	if err != nil {
		h.t.Fatal(err)
	}
	return v.State
}

// sees waits until a machine announces what is wanted.
func (h *house) sees(machine, what string, is func(queue.Machine) bool) queue.Machine {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	var last queue.Machine
	found := false
	err := h.queue.WatchMachines(ctx, func(m queue.Machine) {
		if m.Name != machine || found {
			return
		}
		if last = m; is(m) {
			found = true
			cancel()
		}
	}, func(string) {})
	if err != nil {
		h.t.Fatal(err)
	}
	if !found {
		text, _ := json.MarshalIndent(last, "", "  ")
		h.t.Fatalf("%s never announces: %s. Its last word: %s", machine, what, text)
	}
	return last
}

// gpuIs waits until the i-th GPU of a machine is in that state.
func (h *house) gpuIs(machine string, i int, state string) queue.GPU {
	h.t.Helper()
	m := h.sees(machine, fmt.Sprintf("GPU %d %s", i, state), func(m queue.Machine) bool {
		return i < len(m.GPUs) && m.GPUs[i].State == state
	})
	return m.GPUs[i]
}

// fake is a machine with GPUs that are only this test's: names of GPUs are locked for the whole real machine.
type fake struct {
	*fakenvml.Machine
	uuids []string
}

func newFake(t *testing.T, gpus int, omit ...string) *fake {
	t.Helper()
	f := &fake{Machine: fakenvml.New(t, gpus, omit...)}
	for i := range gpus {
		f.uuids = append(f.uuids, "GPU-"+uuid.NewString())
		f.GPU(i).Set("uuid", f.uuids[i])
	}
	return f
}

// index of a GPU by its UUID.
func (f *fake) index(t *testing.T, id string) int {
	t.Helper()
	for i, u := range f.uuids {
		if u == id {
			return i
		}
	}
	t.Fatalf("%q is no GPU of this machine: %v", id, f.uuids)
	return -1
}

// daemon is a running worker.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

// work starts the worker on a fake machine and waits for its presence.
func (h *house) work(name string, f *fake, args ...string) *daemon {
	h.t.Helper()
	var env []string
	if f != nil {
		env = f.Env()
	}
	return h.workIn(name, filepath.Join(h.dir, name), env, args...)
}

func (h *house) workIn(name, store string, env []string, args ...string) *daemon {
	h.t.Helper()
	all := append([]string{"--name", name, "--store", store, "--server", h.broker.URL(), "--settle", "300ms"}, args...)
	d := &daemon{t: h.t, cmd: exec.Command(h.worker, all...), done: make(chan struct{}), more: make(chan struct{})}
	d.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_CONFIG_HOME=" + h.dir, "BERTH_WORKER_PYTHON=none", "BERTH_WORKER_ALLOW_ROOT=true"}, env...)
	d.cmd.Dir = h.dir
	out, err := d.cmd.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	began := time.Now()
	go d.listen(bufio.NewScanner(out))
	h.t.Cleanup(d.stop)
	d.says(`"msg":"ready"`)
	h.sees(name, "its presence", func(m queue.Machine) bool { return m.At.After(began) })
	return d
}

func (d *daemon) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		d.mu.Lock()
		d.lines = append(d.lines, lines.Text())
		close(d.more)
		d.more = make(chan struct{})
		d.mu.Unlock()
	}
	_ = d.cmd.Wait()
	close(d.done)
}

// says waits for a line of the worker's log with all those words in it.
func (d *daemon) says(words ...string) string {
	d.t.Helper()
	limit := time.After(patience)
	for {
		d.mu.Lock()
		more := d.more
		for _, line := range d.lines {
			if hasAll(line, words) {
				d.mu.Unlock()
				return line
			}
		}
		d.mu.Unlock()
		select {
		case <-more:
		case <-d.done:
			d.t.Fatalf("the worker ended and never said %q", words)
		case <-limit:
			d.t.Fatalf("the worker never says %q", words)
		}
	}
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// detach ends the worker as a service manager does: what runs goes on.
func (d *daemon) detach() {
	d.t.Helper()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatal("the worker does not end")
	}
}

// stop ends the worker and what it runs, and shows its log when the test has failed.
func (d *daemon) stop() {
	defer func() {
		if d.t.Failed() {
			d.t.Logf("the worker said:\n%s", strings.Join(d.lines, "\n"))
		}
	}()
	limit := time.After(patience)
	for {
		_ = d.cmd.Process.Signal(syscall.SIGINT) // drain; again: stop what runs
		select {
		case <-d.done:
			return
		case <-time.After(100 * time.Millisecond):
		case <-limit:
			_ = d.cmd.Process.Kill()
			<-d.done
			d.t.Error("the worker had to be killed")
			return
		}
	}
}

// child is a process of nobody's: it lives until the test is over, or is killed.
func child(t *testing.T) *os.Process {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process
}
