package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain builds the commands as people get them and puts them first in PATH. Built for the race detector, as the test
// binary is, each of the hundreds of starts would take a second longer.
func TestMain(m *testing.M) {
	bin, err := os.MkdirTemp("", "berth-commands-")
	if err == nil {
		build := exec.Command("go", "build", "-o", bin+"/", "../../cmd/submit", "../../cmd/worker", "../../cmd/berth")
		var said []byte
		if said, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("build the commands: %w\n%s", err, said)
		}
	}
	if err == nil {
		err = os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leakChecked{m}.Run()
	_ = os.RemoveAll(bin) // a folder left in the temporary directory is no reason to fail
	os.Exit(code)
}

// leakChecked fails the package when a test leaves a goroutine behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goleak:", err)
		return 1
	}
	return code
}

// TestScripts types what a user types: testdata/script/*.txt. Each script may start a broker of its own, and workers.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: setup,
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"number":   number,
			"broker":   startBroker,
			"start":    start,
			"end":      endProcess,
			"await":    await,
			"sent":     sent,
			"publish":  publish,
			"perm":     perm,
			"bytes":    sameBytes,
			"waitfile": waitFile,
			"tty":      onTerminal,
		},
	})
}

func setup(env *testscript.Env) error {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	env.Setenv("GORACE", "atexit_sleep_ms=0") // built with -race, every command would sleep a second at its end
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	env.Setenv("BERTH_WORKER_STORE", filepath.Join(env.WorkDir, "store"))
	env.Setenv("BERTH_WORKER_ALLOW_ROOT", "true")    // where the tests are root; root.txt takes it away
	env.Setenv("BERTH_SERVER", "nats://127.0.0.1:1") // nobody listens; a script that wants a broker says so
	env.Values[processesKey{}] = &processes{}
	return nil
}

// exits CODE PROGRAM [ARG...]: the program ends with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := codeOf(err); fmt.Sprint(got) != args[0] {
		ts.Fatalf("%s ended with %d, want %s (%v)", args[1], got, args[0], err)
	}
}

func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(interface{ ExitCode() int }); ok {
		return e.ExitCode()
	}
	return -1
}

// number VARIABLE: the last stdout is one number; keep it.
func number(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: number VARIABLE")
	}
	var n uint64
	if _, err := fmt.Sscanf(ts.ReadFile("stdout"), "%d\n", &n); err != nil {
		ts.Fatalf("stdout is no number: %q", ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], fmt.Sprint(n))
}

// perm MODE FILE: the file has that mode.
func perm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: perm MODE FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// bytes stdout|stderr TEXT: the stream is exactly that, Go escapes understood.
func sameBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bytes stdout|stderr TEXT")
	}
	want, err := unescape(args[1])
	ts.Check(err)
	if got := ts.ReadFile(args[0]); got != want {
		ts.Fatalf("%s is %q, want %q", args[0], got, want)
	}
}

// waitfile FILE: until the file is there.
func waitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfile FILE")
	}
	deadline := time.Now().Add(patience)
	for {
		_, err := os.Stat(ts.MkAbs(args[0]))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
