package worker

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthq/berth/job"
)

// asStamper in the environment makes the test binary a job that leaves a trail: "ledger duration".
const asStamper = "BERTH_TEST_AS_STAMPER"

const (
	stampEvery = 10 * time.Millisecond

	stampStart   = "start"
	stampAlive   = "alive"
	stampEnd     = "end"
	stampOverlap = "overlap" // somebody else runs this very job
)

// takeStamper becomes the job, and never returns, when the process was started as one. It is the job that is hardest to
// fence: it does not end when it is asked to, and it leaves a child in a session of its own. Both hold the job's lock, so
// that whoever starts the job while anything of an earlier run lives finds it taken.
func takeStamper() {
	text := os.Getenv(asStamper)
	if text == "" {
		return
	}
	if err := stamper(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(97)
	}
	os.Exit(0)
}

func stamper(text string) error {
	signal.Ignore(syscall.SIGTERM)
	path, length, _ := strings.Cut(text, " ")
	lasts, err := time.ParseDuration(length)
	if err != nil {
		return err
	}
	ledger, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	stamp := func(what string) error {
		_, err := fmt.Fprintf(ledger, "%s %s %d\n", os.Getenv("BERTH_ATTEMPT"), what, boottime())
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w (%w)", err, stamp(stampOverlap))
	}
	child := exec.Command("sleep", "600")
	child.ExtraFiles, child.SysProcAttr = []*os.File{lock}, &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	if err := stamp(stampStart); err != nil {
		return err
	}
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(stampEvery) {
		if err := stamp(stampAlive); err != nil {
			return err
		}
	}
	return stamp(stampEnd)
}

func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// stamping is a job that stamps the ledger for so long.
func stamping(ledger string, lasts time.Duration) job.Spec {
	text, noSleep := ledger+" "+lasts.String(), "atexit_sleep_ms=0"
	return job.Spec{
		Name: "stamper", Command: job.Command{os.Args[0]}, Workdir: "/",
		Env: map[string]*string{asStamper: &text, "GORACE": &noSleep},
	}
}

// life is the time in which an attempt was seen alive.
type life struct {
	attempt     int
	first, last time.Duration
	ended       bool // by itself
}

// trail reads a ledger and fails the test when two attempts of the job overlap.
func trail(t *testing.T, ledger string) []life {
	t.Helper()
	f, err := os.Open(ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []life
	byAttempt := map[int]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var attempt int
		var what string
		var at time.Duration
		if _, err := fmt.Sscan(lines.Text(), &attempt, &what, &at); err != nil {
			t.Fatalf("ledger line %q: %v", lines.Text(), err)
		}
		i, known := byAttempt[attempt]
		switch {
		case what == stampOverlap:
			t.Errorf("attempt %d began while an earlier one lived, in %s", attempt, ledger)
			continue
		case what == stampStart && known:
			t.Errorf("attempt %d began twice", attempt)
		case what == stampStart:
			i, byAttempt[attempt] = len(all), len(all)
			all = append(all, life{attempt: attempt, first: at})
		case !known:
			t.Fatalf("attempt %s lives without a beginning", strconv.Itoa(attempt))
		}
		all[i].last, all[i].ended = at, what == stampEnd
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if a.first <= b.last && b.first <= a.last {
				t.Errorf("attempts %d and %d overlap: %v to %v and %v to %v", b.attempt, a.attempt, b.first, b.last, a.first, a.last)
			}
		}
	}
	return all
}
