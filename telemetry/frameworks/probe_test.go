package frameworks_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/frameworks"
)

// python is this machine's interpreter, "" without one.
var python string

func TestMain(m *testing.M) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.base_prefix + '|' + sys.executable)").Output()
	if err == nil {
		_, python, _ = strings.Cut(strings.TrimSpace(string(out)), "|")
	}
	if python == "" {
		fmt.Fprintln(os.Stderr, "NOT RUN: the probes through a real Python: there is no python3 in PATH")
	}
	goleak.VerifyTestMain(m)
}

// site is a virtual environment with nothing in it but the packages a test puts there.
type site struct{ dir string }

func newSite(t *testing.T, packages map[string]string) site {
	t.Helper()
	if python == "" {
		t.Skip("no python3 in PATH")
	}
	s := site{t.TempDir()}
	s.write(t, "pyvenv.cfg", "home = "+filepath.Dir(python)+"\ninclude-system-site-packages = false\n")
	if err := os.Mkdir(filepath.Join(s.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(python, filepath.Join(s.dir, "bin", "python3")); err != nil {
		t.Fatal(err)
	}
	for name, text := range packages {
		s.write(t, name+".py", text)
	}
	return s
}

func (s site) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s site) prober(t *testing.T, change ...func(*frameworks.Options)) *frameworks.Prober {
	t.Helper()
	opts := frameworks.Options{
		Interpreter: s.dir,
		Environ:     []string{"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + s.dir, "SITE=" + s.dir},
	}
	for _, c := range change {
		c(&opts)
	}
	return frameworks.New(opts)
}

func (s site) probe(t *testing.T, names ...string) frameworks.Report {
	t.Helper()
	r, err := s.prober(t).Probe(t.Context(), cards(), names...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cards are two of a kind, as NVML describes them.
func cards() []telemetry.Device {
	return []telemetry.Device{
		{UUID: "GPU-aaaa0000-0000-0000-0000-000000000000", Index: 0, Name: "Card X", PCIBusID: "00000000:3B:00.0", Driver: "570.10"},
		{UUID: "GPU-bbbb0000-0000-0000-0000-000000000000", Index: 1, Name: "Card X", PCIBusID: "00000000:AF:00.0", Driver: "570.10"},
	}
}

// torchSees is a torch that behaves, with noise, and names its devices as PyTorch does.
const torchSees = `
import sys
print("Welcome to torch!", flush=True); print("a warning", file=sys.stderr)
__version__ = "2.6.0+cu124"
class version: cuda = "12.4"
class _P:
    def __init__(self, uuid): self.uuid, self.name = uuid, "Card X"
class cuda:
    _all = [_P("aaaa0000-0000-0000-0000-000000000000"), _P("bbbb0000-0000-0000-0000-000000000000")]
    device_count = staticmethod(lambda: len(cuda._all))
    get_device_properties = staticmethod(lambda i: cuda._all[i])
`

// cupySecond sees the second card only.
const cupySecond = `
__version__ = "13.4"
class cuda:
    class runtime:
        getDeviceCount = staticmethod(lambda: 1)
        deviceGetPCIBusId = staticmethod(lambda i: "0000:af:00.0")
`

const tensorflowSees = `
__version__ = "2.18"
class _D:
    def __init__(self, i): self.name = "/physical_device:GPU:%d" % i
class config: list_physical_devices = staticmethod(lambda kind: [_D(1), _D(0)])
class test: is_built_with_gpu_support = staticmethod(lambda: True)
`

const jaxSees = `
__version__ = "0.5"
class _D:
    def __init__(self, i): self.id, self.local_hardware_id, self.device_kind = 7, i, "Card X"
def local_devices(backend): return [_D(0), _D(1)]
`

const jaxWithout = `
__version__ = "0.5"
def local_devices(backend): raise RuntimeError("Unknown backend: 'gpu' requested")
`

const cleSees = `
__version__ = "0.20"
def list_available_devices(kind): return ["Card X", "Card X"]
`

func TestEveryFrameworkNamesItsDevices(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"torch": torchSees, "cupy": cupySecond, "tensorflow": tensorflowSees, "jax": jaxSees, "pyclesperanto": cleSees,
	})
	r := s.probe(t, frameworks.All()...)
	both := cards()[0].UUID + " " + cards()[1].UUID
	for name, want := range map[string]string{
		frameworks.Torch: both, frameworks.CuPy: cards()[1].UUID, frameworks.TensorFlow: both,
		frameworks.JAX: both, frameworks.Pyclesperanto: both,
	} {
		if got := strings.Join(r.Devices()[name], " "); got != want || r.Frameworks[name].Err != "" {
			t.Errorf("%s sees %q (%s), want %q", name, got, r.Frameworks[name].Err, want)
		}
	}
	if v := r.Frameworks[frameworks.Torch].Version; v != "2.6.0+cu124" {
		t.Errorf("version %q", v)
	}
	warnings := frameworks.Missing(cards(), r)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "cupy 13.4") || !strings.Contains(warnings[0], "not GPU 0") {
		t.Errorf("warnings: %q, want one about cupy and GPU 0", warnings)
	}
}

func TestAbsentIsAbsentAndJAXIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"jax": `raise SystemError("nobody asked for me")`, "torch": torchSees})
	r := s.probe(t)
	if len(r.Frameworks) != 1 || r.Frameworks[frameworks.Torch].Count != 2 {
		t.Errorf("frameworks %v, want torch alone", r.Frameworks)
	}
	if got := strings.Join(r.Installed, " "); got != "torch jax" {
		t.Errorf("installed %q", got)
	}
	if w := frameworks.Missing(cards(), r); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
}

func TestWithoutDevicesNothingIsImported(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"torch": leavesMark + torchSees})
	r, err := s.prober(t).Probe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Installed) != 1 || len(r.Frameworks) != 0 || s.marks(t) != 0 {
		t.Errorf("installed %v, asked %v, imported %d times", r.Installed, r.Frameworks, s.marks(t))
	}
}

func TestMisbehaviourCostsOneAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"segmentation fault", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it crashed (SIGSEGV)"},
		{"leaves with its reason", "import os, sys; print('libfoo.so: bad ELF', file=sys.stderr, flush=True); os._exit(7)",
			"it ended with exit code 7; its last words: libfoo.so: bad ELF"},
		{"leaves politely", "raise SystemExit(3)", "SystemExit: 3"},
		{"a library is missing", "import libcudart_not_here", "ModuleNotFoundError: No module named 'libcudart_not_here'"},
		{"does not parse", "def :", "SyntaxError: invalid syntax"},
		{"lacks what it should have", "__version__ = '1'\nclass version: cuda = '12'", "AttributeError: module 'torch' has no attribute 'cuda'"},
		{"floods", "import sys\nfor _ in range(20000): print('x' * 500)\nraise ValueError('enough')", "ValueError: enough"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{"torch": c.text, "tensorflow": tensorflowSees})
			r := s.probe(t)
			if got := r.Frameworks[frameworks.Torch].Err; !strings.HasPrefix(got, c.want) {
				t.Errorf("error %q, want %q", got, c.want)
			}
			if r.Frameworks[frameworks.TensorFlow].Count != 2 {
				t.Errorf("the next framework suffered: %+v", r.Frameworks[frameworks.TensorFlow])
			}
			if w := frameworks.Missing(cards(), r); len(w) != 1 || !strings.Contains(w[0], "could not be asked") {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

func TestNoGPUSupportSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"torch": "__version__ = '2.6.0+cpu'\nclass version: cuda = None",
		"jax":   jaxWithout,
	})
	w := frameworks.Missing(cards(), s.probe(t, frameworks.Torch, frameworks.JAX))
	if len(w) != 2 || !strings.Contains(w[0], "sees none of 2 GPUs: this build has no GPU support") ||
		!strings.Contains(w[1], "sees none of 2 GPUs: Unknown backend: 'gpu' requested") {
		t.Errorf("warnings %q", w)
	}
}

// hangs, with a child of its own that hangs too, after it has said so.
const hangs = `
import os, signal
child = os.fork()
if child:
    with open(os.environ["SITE"] + "/hung", "w") as bell: bell.write("%d\n" % child)
signal.pause()
`

func TestHangIsEndedByItsLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"torch": "import signal; signal.pause()", "tensorflow": tensorflowSees})
	p := s.prober(t, func(o *frameworks.Options) { o.Timeout = 2 * time.Second })
	r, err := p.Probe(t.Context(), cards(), frameworks.Torch)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Frameworks[frameworks.Torch].Err, "no answer within 2s; it was stopped"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"torch": hangs})
	bell := filepath.Join(s.dir, "hung")
	if err := unix.Mkfifo(bell, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.prober(t).Probe(ctx, cards())
		ended <- err
	}()
	child := readPID(t, bell)
	fd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatalf("the grandchild %d: %v", child, err)
	}
	defer unix.Close(fd)
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error %v", err)
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
	if err != nil || n != 1 {
		t.Errorf("the grandchild %d lives on: poll %d, %v", child, n, err)
	}
}

func readPID(t *testing.T, fifo string) int {
	t.Helper()
	f, err := os.Open(fifo) // waits for the writer
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestProbesRunWithoutWhatHidesGPUsOrIsSecret(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"torch": `
import os
__version__ = " ".join(sorted(k for k in os.environ if k.startswith(("BERTH", "CUDA", "XLA", "MINE"))))
class version: cuda = None
`})
	p := s.prober(t, func(o *frameworks.Options) {
		o.Environ = append(o.Environ, "BERTH_TOKEN=secret", "CUDA_VISIBLE_DEVICES=", "CUDA_DEVICE_ORDER=FASTEST_FIRST", "MINE=1")
	})
	r, err := p.Probe(t.Context(), cards())
	if err != nil {
		t.Fatal(err)
	}
	want := "CUDA_DEVICE_ORDER MINE XLA_PYTHON_CLIENT_PREALLOCATE"
	if got := r.Frameworks[frameworks.Torch].Version; got != want {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestBadInterpreter(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, interpreter, want string }{
		{"missing", "/no/such/python", "no Python interpreter"},
		{"not in PATH", "python9", "python9 is not in PATH"},
		{"no environment", empty, "a folder without bin/python3"},
		{"no Python", "/bin/true", "it ended without an answer"},
		{"not a program", filepath.Join(empty, "notes"), "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := frameworks.New(frameworks.Options{Interpreter: c.interpreter, Environ: []string{"PATH=/usr/bin:/bin"}})
			_, err := p.Probe(t.Context(), cards())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestUnknownFramework(t *testing.T) {
	t.Parallel()
	_, err := frameworks.New(frameworks.Options{}).Probe(t.Context(), cards(), "pytorch")
	if err == nil || !strings.Contains(err.Error(), `framework "pytorch" is not known; there are torch, `) {
		t.Errorf("error %v", err)
	}
}
