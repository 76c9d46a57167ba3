package runner

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/berthq/berth/runner/fakerun"
	"github.com/berthq/berth/runner/proc"
)

// afterRun is a run with a lock file and a last command, a shell's.
type afterRun struct {
	*Handle
	t    *testing.T
	said string // the file for what the last command has to say
}

// startWithAfter starts a run; its last command gets $LOCK and $SAID.
func startWithAfter(t *testing.T, script string, job ...string) *afterRun {
	t.Helper()
	dir := t.TempDir()
	p, err := New(Options{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	lock, err := os.Create(filepath.Join(dir, "gpu.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	r := &afterRun{t: t, said: filepath.Join(dir, "said")}
	script = "LOCK=" + lock.Name() + " SAID=" + r.said + "; " + script
	r.Handle, err = p.Start(t.Context(), Run{
		ID: "5.1", Command: fakerun.Command(job...), Env: fakerun.Env(), Dir: "/", Grace: -1,
		ExtraFiles: []*os.File{lock}, After: []string{"/bin/sh", "-c", script},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Detach)
	return r
}

func (r *afterRun) ends() Exit {
	r.t.Helper()
	exit, err := r.Wait(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return exit
}

func (r *afterRun) wants(text string) {
	r.t.Helper()
	if got, err := os.ReadFile(r.said); err != nil || strings.TrimSpace(string(got)) != text {
		r.t.Errorf("the last command said %q (%v), want %q", got, err, text)
	}
}

// The last command runs when no process of the run is left, and before its locks are free, whoever runs it.
func TestAfter(t *testing.T) {
	t.Parallel()
	const script = `flock -n "$LOCK" true && state=free || state=held; echo "$state $(env | grep -c FAKE)" > "$SAID"`
	r := startWithAfter(t, script, "children=2", "hang")
	if err := r.Stop(Cancelled, "test"); err != nil {
		t.Fatal(err)
	}
	if exit := r.ends(); exit.Cause != Cancelled || len(exit.Warnings) != 0 {
		t.Errorf("%+v", exit)
	}
	r.wants("held 0")

	r = startWithAfter(t, script, "children=2", "hang")
	if err := proc.Signal(r.state.Shim.PID, r.state.Shim.Start, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := r.ends(); exit.Cause != ShimLost || len(exit.Warnings) != 0 {
		t.Errorf("%+v", exit)
	}
	r.wants("free 0") // the shim held them
}

func TestAfterThatFails(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		r := startWithAfter(t, `echo "the engine is away" >&2; exit 1`, "hang")
		err := r.Stop(Cancelled, "test")
		if killed {
			err = errors.Join(err, proc.Signal(r.state.Shim.PID, r.state.Shim.Start, syscall.SIGKILL))
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		if exit := r.ends(); !strings.Contains(strings.Join(exit.Warnings, " "), "the engine is away") {
			t.Errorf("shim killed: %v; %+v", killed, exit)
		}
	}
}

// What a helper knows of what it stands for wins over what the shim counted of the helper.
func TestInside(t *testing.T) {
	t.Parallel()
	cpu, peak := 7.5, int64(900)
	counted := Exit{Code: 137, CPUSeconds: 0.01, PeakMemoryMB: &[]int64{12}[0]}
	for _, c := range []struct {
		name  string
		in    Inside
		cause Cause // as the shim saw it
		want  Exit
	}{
		{"counts", Inside{CPUSeconds: &cpu, PeakMemoryMB: &peak, OOMKills: 1}, "", Exit{Code: 137, CPUSeconds: 7.5, PeakMemoryMB: &peak, OOMKills: 1}},
		{"nobody counted", Inside{}, "", Exit{Code: 137}},
		{"the engine went", Inside{Lost: "gone"}, "", Exit{Code: 137, Cause: EngineLost, Why: "gone"}},
		{"the engine went after a cancel", Inside{Lost: "gone"}, Cancelled, Exit{Code: 137, Cause: Cancelled}},
		{"the job's fault", Inside{NotStarted: "no image", Code: 125}, "", Exit{Code: 137, NotStarted: &StartError{125, "no image"}}},
		{"the machine's fault", Inside{NotStarted: "no engine", Machine: true}, "", Exit{Code: 137, MachineErr: errors.New("no engine")}},
	} {
		dir := t.TempDir()
		if err := WriteInside(dir, c.in); err != nil {
			t.Fatal(err)
		}
		got := counted
		got.Cause = c.cause
		got.addInside(dir)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v\nwant %+v", c.name, got, c.want)
		}
	}
	got := counted
	got.addInside(t.TempDir())
	if !reflect.DeepEqual(got, counted) {
		t.Errorf("an ordinary run changed: %+v", got)
	}
}
