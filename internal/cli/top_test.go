package cli_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthq/berth/internal/cli/screen"
)

// viewer is a berth top on a terminal.
type viewer struct {
	t             *testing.T
	master, slave *os.File
	cmd           *exec.Cmd
	shown         *output
	before        unix.Termios
	closed        chan struct{}
}

func (s *station) top(width uint16) *viewer {
	s.t.Helper()
	v := &viewer{t: s.t, shown: &output{}, closed: make(chan struct{})}
	var err error
	if v.master, v.slave, err = terminal(width); err != nil {
		s.t.Fatal(err)
	}
	v.before = v.modes()
	v.cmd = exec.Command("berth", "top")
	v.cmd.Env, v.cmd.Dir = s.environ, s.dir
	v.cmd.Stdin, v.cmd.Stdout, v.cmd.Stderr = v.slave, v.slave, v.slave
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := v.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(v.closed)
		_, _ = io.Copy(v.shown, v.master) // EIO is how a terminal ends
	}()
	return v
}

func (v *viewer) modes() unix.Termios {
	v.t.Helper()
	modes, err := unix.IoctlGetTermios(int(v.slave.Fd()), unix.TCGETS)
	if err != nil {
		v.t.Fatal(err)
	}
	return *modes
}

var moved = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// pages are those that were drawn, the last one perhaps not whole.
func (v *viewer) pages() []string {
	pages := strings.Split(v.shown.String(), "\x1b[H")
	for i := range pages {
		pages[i] = strings.ReplaceAll(moved.ReplaceAllString(pages[i], ""), "\r", "")
	}
	return pages
}

// await waits until a page after the first `seen` ones has all that is looked for, and gives it.
func (v *viewer) await(seen int, is func(page string) bool) string {
	v.t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		pages := v.pages()
		if i := slices.IndexFunc(pages[min(seen, len(pages)):], is); i >= 0 {
			return pages[seen+i]
		}
		select {
		case <-tick.C:
		case <-late:
			v.t.Fatalf("no page is as it should be, the last is\n%s", pages[len(pages)-1])
		}
	}
}

func (v *viewer) press(keys string) (seen int) {
	v.t.Helper()
	seen = len(v.pages())
	if _, err := v.master.WriteString(keys); err != nil {
		v.t.Fatal(err)
	}
	return seen
}

// ends waits for the end of the program, and looks at what it leaves behind.
func (v *viewer) ends(how string) {
	v.t.Helper()
	err := v.cmd.Wait()
	if after := v.modes(); after != v.before {
		v.t.Errorf("after %s the terminal has other modes: %+v, before %+v", how, after, v.before)
	}
	if err := errors.Join(err, v.slave.Close()); err != nil {
		v.t.Errorf("after %s: %v", how, err)
	}
	<-v.closed
	if text := v.shown.String(); !strings.HasSuffix(text, "\x1b[?7h\x1b[?25h\x1b[?1049l") || strings.Count(text, "\x1b[?1049h") != 1 {
		v.t.Errorf("after %s the terminal is not given back: %q", how, text[max(len(text)-60, 0):])
	}
	if err := v.master.Close(); err != nil {
		v.t.Error(err)
	}
}

func has(words ...string) func(string) bool {
	return func(page string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(page, w) })
	}
}

// TestTop draws the fleet, follows the terminal's size and the keys, and gives the terminal back however it ends.
func TestTop(t *testing.T) {
	t.Parallel()
	s := newStation(t, "sim:48x24Gi")
	s.must("submit", "-q", "-J", "train", "-g", "1", "-m", "20Gi", "--", "sh", "-c", "echo ::progress 3/10 epochs; sleep 600")
	s.await("1", "running")
	s.held("-J", "waits")
	v := s.top(100)
	page := v.await(0, has("MACHINE", "1 ada train", "48 GPUs (1 in use)", "1 running", "°C", " W ", "free", "more below", "by machine"))
	if n := strings.Count(page, "\n"); n != 39 {
		t.Errorf("a terminal of 40 lines got %d:\n%s", n+1, page)
	}
	if strings.Contains(page, "station       47") {
		t.Errorf("the last GPU is on the first page:\n%s", page)
	}
	seen := v.press("G")
	v.await(seen, has("station       47", "JOB", "3/10 epochs"))
	seen = v.press("g")
	v.await(seen, has("station        0"))
	seen = v.press("\x1b[B\x1b[Bjjk") // at once: the title and two GPUs are above the window
	v.await(seen, func(page string) bool { return !has("station        1 ")(page) && has("station        2 ")(page) })
	for _, order := range []string{"by load", "by memory"} {
		seen = v.press("s")
		v.await(seen, has(order))
	}
	seen = v.press("/")
	v.press("train\r")
	v.await(seen, func(page string) bool {
		return has("only train", "1 ada train")(page) && strings.Count(page, "station ") == 2
	})
	seen = v.press("\x1b")
	v.await(seen, has("more below"))

	seen = len(v.pages())
	if err := unix.IoctlSetWinsize(int(v.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 60}); err != nil {
		t.Fatal(err)
	}
	page = v.await(seen, func(page string) bool { return strings.Count(page, "\n") == 11 })
	for line := range strings.Lines(page) {
		if w := screen.Width(strings.TrimSuffix(line, "\n")); w > 60 {
			t.Errorf("60 columns got a line of %d: %q", w, line)
		}
	}
	v.press("q")
	v.ends("q")

	v = s.top(80)
	v.await(0, has("1 ada"))
	v.press("\x03")
	v.ends("Ctrl-C")

	v = s.top(80)
	v.await(0, has("1 ada"))
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	v.ends("SIGTERM")

	if code, stdout, stderr := s.berth("top"); code != 2 || stdout != "" || !strings.Contains(stderr, "berth gpus -w") {
		t.Errorf("in a pipe: exit %d, %q, %q", code, stdout, stderr)
	}
}
