package cli_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
)

// seen is a terminal, and what it has been sent so far.
type seen struct {
	*output
	master, slave *os.File
	done          sync.WaitGroup
}

func (s *station) openScreen(width uint16) *seen {
	s.t.Helper()
	master, slave, err := terminal(width)
	if err != nil {
		s.t.Fatal(err)
	}
	v := &seen{output: &output{}, master: master, slave: slave}
	v.done.Go(func() {
		if _, err := io.Copy(v.output, master); err != nil && !errors.Is(err, syscall.EIO) { // EIO is how a terminal ends
			s.t.Error(err)
		}
	})
	return v
}

// close gives everything that was shown.
func (v *seen) close() string {
	_ = v.slave.Close()
	v.done.Wait()
	_ = v.master.Close()
	return strings.ReplaceAll(v.String(), "\r\n", "\n")
}

// typed runs a command with those streams while beside does something else.
func (s *station) typed(stdout, stderr io.Writer, beside func(), args ...string) (code int) {
	s.t.Helper()
	var running sync.WaitGroup
	running.Go(func() {
		env := s.env(args, stdout, stderr)
		code = cli.Execute(s.t.Context(), operator.Root(env), env)
	})
	beside()
	running.Wait()
	return code
}

// gate makes a file that jobs wait for, and the shell line that waits for it.
func (s *station) gate(name string) (line string, open func()) {
	path := filepath.Join(s.dir, name)
	return "until [ -e " + path + " ]; do sleep 0.02; done", func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			s.t.Error(err)
		}
	}
}

// shows waits until a screen has shown something.
func (s *station) shows(o *output, pattern string) {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	s.until(func() bool { return want.MatchString(o.String()) }, func() string { return pattern + " was never shown:\n" + o.String() })
}

// After \r and before the line is erased stands the foot of a screen; what is left without it is the log.
var foot = regexp.MustCompile(`\r(\x1b\[2m)?[^\r\n]*?(\x1b\[0m)?\x1b\[K`)

// TestGroupBar waits for an array: on a terminal one line that counts, and is gone at the end; in a pipe a line for each
// tenth and each failure; with -q nothing.
func TestGroupBar(t *testing.T) {
	t.Parallel()
	s := newStation(t, "sim:2x24Gi")
	hold, open := s.gate("last")
	array := func() string {
		return s.must("submit", "-q", "-a", "1-10", "--", "sh", "-c", `[ $BERTH_ARRAY_INDEX != 3 ] || exit 4; [ $BERTH_ARRAY_INDEX -lt 10 ] || { `+hold+`; }`)
	}
	id := array()
	screen := s.openScreen(100)
	var pipe, quiet output
	var all sync.WaitGroup
	all.Go(func() {
		if code := s.typed(&quiet, &quiet, func() {}, "wait", "-q", id); code != 1 {
			t.Errorf("wait -q ended with %d", code)
		}
	})
	all.Go(func() {
		if code := s.typed(io.Discard, &pipe, func() {}, "wait", id); code != 1 {
			t.Errorf("wait into a pipe ended with %d", code)
		}
	})
	if code := s.typed(io.Discard, screen.slave, func() {
		s.shows(screen.output, `job `+id+`  █+.?·+ 9/10 done, 1 failed, 1 running, about \d+ s left`)
		s.shows(&pipe, `job `+id+`: 9/10 done, 1 failed`)
		open()
	}, "wait", id); code != 1 {
		t.Errorf("wait on a terminal ended with %d", code)
	}
	all.Wait()
	shown := screen.close()
	if rest := foot.ReplaceAllString(shown, ""); strings.Contains(rest, "done,") || strings.Count(rest, "\n") != 1 || !strings.HasPrefix(rest, "berth: job "+id+" failed") {
		t.Errorf("the terminal keeps %q", rest)
	}
	said := pipe.String()
	if n := strings.Count(said, "/10 done"); n < 1 || n > 9 || strings.Count(said, "berth: job "+id+".3 failed") != 1 || strings.ContainsAny(said, "\r\x1b█") {
		t.Errorf("the pipe got\n%s", said)
	}
	if quiet.String() != "" {
		t.Errorf("-q says %q", quiet.String())
	}
}

// TestSendingBar submits many documents on a slow clock: the terminal counts them, and each number is there.
func TestSendingBar(t *testing.T) {
	t.Parallel()
	s := newBroker(t)
	spec := filepath.Join(s.dir, "many.yaml")
	if err := os.WriteFile(spec, []byte(strings.Repeat("---\ncommand: [\"true\"]\n", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	screen := s.openScreen(100)
	var stdout bytes.Buffer
	env := s.env([]string{"submit", "-f", spec}, &stdout, screen.slave)
	clock := time.Now()
	env.Now = func() time.Time { clock = clock.Add(400 * time.Millisecond); return clock }
	code := cli.Execute(t.Context(), operator.Root(env), env)
	shown := screen.close()
	if code != 0 || stdout.String() != "1\n2\n3\n4\n" {
		t.Errorf("exit %d, stdout %q", code, &stdout)
	}
	if !strings.Contains(shown, "submitting  ████████████████████████ 4/4 jobs") || strings.Contains(shown, " 1/4 jobs") || strings.Contains(foot.ReplaceAllString(shown, ""), "submitting") {
		t.Errorf("the terminal has %q", shown)
	}
}

// TestFollowFoot follows a job on a terminal: one line of where it is under its log, which stays as the job wrote it;
// with stdout in a pipe the line is alone on the terminal; with both in pipes there is none.
func TestFollowFoot(t *testing.T) {
	t.Parallel()
	s := newStation(t, "sim:2x24Gi")
	hold, open := s.gate("end")
	const begins, ends = "one\n::progress 1/4 epochs\nthr", "ee\nfour\n"
	id := s.must("submit", "-q", "-g", "1", "-m", "4Gi", "--", "sh", "-c", "printf 'one\\n::progress 1/4 epochs\\nthr'; "+hold+"; printf 'ee\\nfour\\n'")
	both, only := s.openScreen(160), s.openScreen(160)
	var stdout, plain, stderr bytes.Buffer
	var all sync.WaitGroup
	for _, c := range []struct{ out, err io.Writer }{{both.slave, both.slave}, {&stdout, only.slave}, {&plain, &stderr}} {
		all.Go(func() {
			if code := s.typed(c.out, c.err, func() {}, "logs", "-f", id); code != 0 {
				t.Errorf("logs -f ended with %d", code)
			}
		})
	}
	s.shows(both.output, `thr$`)
	s.shows(only.output, `job `+id+` running \S+ on `+stationMachine+`  GPU [01]: \d+ %, \S+( MiB)? of 24 GiB  ██······ 1/4 epochs`)
	open()
	all.Wait()
	shown := both.close()
	log, _, _ := strings.Cut(foot.ReplaceAllString(shown, ""), "four\n")
	if !strings.HasPrefix(log, "one\n") || !strings.HasSuffix(log, "1/4 epochs\nthree\n") || !strings.Contains(shown, "job "+id+" ") {
		t.Errorf("the terminal has\n%q", shown)
	}
	if got := stdout.String(); got != begins+ends {
		t.Errorf("stdout in a pipe is %q", got)
	}
	only.close()
	if got := plain.String(); got != begins+ends {
		t.Errorf("in a pipe stdout is %q", got)
	}
	if said := stderr.String(); strings.ContainsAny(said, "\r\x1b") || strings.Contains(said, "running") {
		t.Errorf("in a pipe stderr is %q", said)
	}
}
