package hold

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/runner/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// holder starts this test binary as a holder.
func holder(t *testing.T, until *Process) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	argv := Command(until)
	cmd := exec.Command(argv[0], argv[1:]...)
	out := &strings.Builder{}
	cmd.Stdout, cmd.Env = out, []string{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// sleeper is a process that lives until its stdin is closed.
func sleeper(t *testing.T) (p Process, end func()) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := proc.Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	end = func() { _ = in.Close(); _ = cmd.Wait() }
	t.Cleanup(end)
	return Process{cmd.Process.Pid, stat.Start}, end
}

func TestEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	p, end := sleeper(t)
	cmd, out := holder(t, &p)
	stat, err := proc.Read(cmd.Process.Pid)
	if err != nil || stat.Zombie() {
		t.Fatalf("the holder is not there: %+v, %v", stat, err)
	}
	end()
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if want := fmt.Sprintf("process %d has ended\n", p.PID); out.String() != want {
		t.Errorf("said %q, want %q", out, want)
	}
}

func TestAnotherProcessWithThePidIsNotMeant(t *testing.T) {
	t.Parallel()
	p, _ := sleeper(t)
	p.Start++
	cmd, _ := holder(t, &p)
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestProcessThatIsNoMore(t *testing.T) {
	t.Parallel()
	p, end := sleeper(t)
	end()
	cmd, _ := holder(t, &p)
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestWaitsUntilItIsEnded(t *testing.T) {
	t.Parallel()
	p, _ := sleeper(t)
	for _, until := range []*Process{nil, &p} {
		cmd, out := holder(t, until)
		for _, sig := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGCONT} { // ignored by default: it goes on waiting
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if err == nil || !ok || status.Signal() != syscall.SIGTERM || out.String() != "" {
			t.Errorf("until %v: ended with %v, said %q", until, err, out)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"x", "y"}, {"1"}, {"1", "2", "3"}} {
		cmd := exec.Command(self, append([]string{mark}, args...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(out)
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 2 || len(said) == 0 {
			t.Errorf("%q: exit %d, said %q", args, cmd.ProcessState.ExitCode(), said)
		}
	}
}

func ExampleCommand() {
	fmt.Println(strings.Join(Command(&Process{PID: 4711, Start: 90210}), " "))
	// Output: /proc/self/exe berth-hold 4711 90210
}
