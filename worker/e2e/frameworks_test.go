package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// environment is a virtual environment with a torch that sees the named cards, and a jax that says when it was asked.
func environment(t *testing.T, sees ...string) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable); print('lib/python%d.%d/site-packages' % sys.version_info[:2])").Output()
	if err != nil {
		t.Skip("NOT RUN: there is no python3 in PATH")
	}
	python, packages, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, packages), 0o755); err != nil {
		t.Fatal(err)
	}
	var cards []string
	for _, uuid := range sees {
		cards = append(cards, fmt.Sprintf("_P(%q)", strings.TrimPrefix(uuid, "GPU-")))
	}
	for name, text := range map[string]string{
		"pyvenv.cfg": "home = " + filepath.Dir(python) + "\ninclude-system-site-packages = false\n",
		packages + "/torch.py": `
__version__ = "2.6.0"
class version: cuda = "12.4"
class _P:
    def __init__(self, uuid): self.uuid, self.name = uuid, "Card X"
class cuda:
    _all = [` + strings.Join(cards, ", ") + `]
    device_count = staticmethod(lambda: len(cuda._all))
    get_device_properties = staticmethod(lambda i: cuda._all[i])
`,
		packages + "/jax.py": `
__version__ = "0.5"
open("` + dir + `/jax-asked", "w").close()
class _D:
    def __init__(self, i): self.id, self.local_hardware_id, self.device_kind = 7, i, "Card X"
def local_devices(backend): return [_D(0), _D(1)]
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(python, filepath.Join(dir, "bin", "python3")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestJobsGetTheCardsTheirFrameworkSees(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	venv := environment(t, f.uuids[1])
	d := h.workIn("titan", filepath.Join(h.dir, "titan"), f.Env(), "--python", venv)
	d.says("framework_sees_less", "torch 2.6.0", "sees 1 of 2 GPUs", f.uuids[0])
	m := h.sees("titan", "what the frameworks see", func(m queue.Machine) bool { return m.Frameworks != nil })
	if sees := m.Frameworks["torch"]; !slices.Equal(sees, []string{f.uuids[1]}) {
		t.Errorf("torch sees %v", sees)
	}
	if _, there := m.Frameworks["cupy"]; there || len(m.Warnings) != 1 {
		t.Errorf("frameworks %v, warnings %q", m.Frameworks, m.Warnings)
	}
	if _, err := os.Stat(filepath.Join(venv, "jax-asked")); err == nil {
		t.Error("jax was imported though no job requires it")
	}
	needs := func(framework string) func(*job.Job) {
		return func(j *job.Job) { j.Requirements.Frameworks = []string{framework} }
	}
	torch := h.submit(1, needs("torch"))
	a := h.started()
	if a.gpus != f.uuids[1] {
		t.Errorf("a job that requires torch was given %s, which torch does not see", a.gpus)
	}
	cupy := h.submit(1, needs("cupy"))
	h.sees("titan", "that a job with cupy never runs here", func(m queue.Machine) bool {
		for _, why := range m.Never {
			if strings.Contains(why, "cupy") {
				return true
			}
		}
		return false
	})
	jax := h.submit(1, needs("jax")) // asked now
	b := h.started()
	if b.ref != jax.String() {
		t.Errorf("%+v", b)
	}
	if _, err := os.Stat(filepath.Join(venv, "jax-asked")); err != nil {
		t.Errorf("a job with jax runs and jax was not asked: %v", err)
	}
	h.end(a, 0)
	h.end(b, 0)
	h.result(torch)
	h.result(jax)
	if s := h.state(cupy); s != job.Queued {
		t.Errorf("the job with cupy is %s", s)
	}
}
