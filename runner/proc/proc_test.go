package proc

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " 1 2 3 0 -1 4194304 0 0 0 0 1 2 0 0 20 0 1 0 538246 0 0"
	for line, want := range map[string]Stat{
		"42 (python3) S" + rest:        {PID: 42, PPID: 1, PGID: 2, SID: 3, State: 'S', Start: 538246},
		"7 (a ) S 9 9 9 (b) Z" + rest:  {PID: 7, PPID: 1, PGID: 2, SID: 3, State: 'Z', Start: 538246},
		"7 (tmux: server\n) R" + rest:  {PID: 7, PPID: 1, PGID: 2, SID: 3, State: 'R', Start: 538246},
		"7 () R" + rest + " 1 2 3 4 5": {PID: 7, PPID: 1, PGID: 2, SID: 3, State: 'R', Start: 538246},
	} {
		if got, err := parseStat([]byte(line)); err != nil || got != want {
			t.Errorf("%q is %+v (%v), want %+v", line, got, err, want)
		}
	}
	for _, bad := range []string{"", "42", "42 (x) S 1", "(x) S" + rest, "42 )x( S" + rest, "x (x) S" + rest} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is taken for %+v", bad, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) S 1 2 3 0 -1 4194304 0 0 0 0 1 2 0 0 20 0 1 0 538246 0 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil && s.State == 0 {
			t.Errorf("%q has no state", b)
		}
	})
}

// sleeper starts a shell with a child; both sleep.
func sleeper(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "trap 'exit 0' USR1; sleep 60 & echo ready; wait")
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return cmd
}

func TestLiving(t *testing.T) {
	t.Parallel()
	cmd := sleeper(t, "BERTH_RUN_ID=7.1@x", "OTHER=BERTH_RUN_ID=9")
	pid := cmd.Process.Pid
	s, err := Read(pid)
	if err != nil || s.PPID != os.Getpid() || s.PGID != pid || s.Start == 0 {
		t.Fatalf("%+v: %v", s, err)
	}
	if !Alive(pid, s.Start) || Alive(pid, s.Start+1) {
		t.Error("a process is told by its pid and its start")
	}
	if !Marked(pid, "BERTH_RUN_ID=7.1@x") || Marked(pid, "BERTH_RUN_ID=7.1") || Marked(pid, "BERTH_RUN_ID=9") {
		t.Error("a mark is a whole entry of the environment")
	}
	if !Catches(pid, int(syscall.SIGUSR1)) || Catches(pid, int(syscall.SIGUSR2)) || Catches(pid, 0) || Catches(pid, 65) {
		t.Error("the shell has a handler for USR1 alone")
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	below := Descendants(all, pid)
	if len(below) != 1 || below[0].PPID != pid {
		t.Errorf("below the shell are %+v, want its sleep", below)
	}
	if up := Descendants(all, os.Getpid()); !slices.Contains(up, below[0]) {
		t.Error("a grandchild is no descendant")
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	cmd := sleeper(t)
	pid := cmd.Process.Pid
	s, err := Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := Signal(pid, s.Start+1, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) || !Alive(pid, s.Start) {
		t.Fatalf("a signal for a process of before: %v", err)
	}
	if err := Signal(pid, s.Start, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the signal did not reach its handler: %v", err)
	}
	if Alive(pid, s.Start) {
		t.Error("alive after it was reaped")
	}
	if _, err := Open(pid); err == nil {
		t.Error("a descriptor of a process that is gone")
	}
}

func TestZombieIsNotAlive(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var s Stat
	for !s.Zombie() { // it will be: nobody reaps it
		var err error
		if s, err = Read(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if Alive(s.PID, s.Start) {
		t.Error("a zombie is alive")
	}
	if f, err := Open(s.PID); err != nil {
		t.Errorf("the kernel opens zombies: %v", err)
	} else {
		f.Close()
	}
}

func TestBoottime(t *testing.T) {
	t.Parallel()
	a := Boottime()
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	var up float64
	if _, err := fmt.Sscan(string(b), &up); err != nil {
		t.Fatal(err)
	}
	if d := up - a.Seconds(); d < -1 || d > 30 {
		t.Errorf("%v after boot, the kernel says %v s", a, up)
	}
	if strings.Count(BootID(), "-") != 4 {
		t.Errorf("boot id %q", BootID())
	}
}
