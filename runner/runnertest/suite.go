// Package runnertest is what every runner.Runner must do, as one suite of tests.
//
// It owns the promises in package runner's documentation, put to the test with real processes. It is for tests alone.
// The test binary that uses it calls fakerun.Take first in its TestMain.
package runnertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/fakerun"
	"github.com/berthq/berth/runner/proc"
)

// Suite runs all tests against runners that open makes over a store folder. open is called again on the same folder to
// act the next worker.
func Suite(t *testing.T, open func(t *testing.T, store string) runner.Runner) {
	t.Helper()
	s := suite{open: open}
	for name, test := range map[string]func(*testing.T, suite){
		"Exit": testExit, "Environment": testEnvironment, "Refusals": testRefusals, "Result": testResult,
		"Stop": testStop, "StopTree": testStopTree, "StopStubborn": testStopStubborn, "Descendants": testDescendants, "Bomb": testBomb,
		"TimeLimit": testTimeLimit, "Checkpoint": testCheckpoint, "Session": testSession,
		"Log": testLog, "LogCap": testLogCap, "LogLongLine": testLogLongLine, "LogPartial": testLogPartial,
		"Adopt": testAdopt, "AdoptEnded": testAdoptEnded, "ShimKilled": testShimKilled, "ShimKilledUnseen": testShimKilledUnseen,
		"ShimTerminated": testShimTerminated, "Locks": testLocks, "Note": testNote, "HostMemory": testHostMemory, "Processes": testProcesses, "Weight": testWeight, "Rebooted": testRebooted,
		"Steps": testSteps, "StepsFail": testStepsFail, "StepMissing": testStepMissing, "StepsResume": testStepsResume,
		"StepsStop": testStepsStop, "StepsAdopt": testStepsAdopt, "StepsShimKilled": testStepsShimKilled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

type suite struct {
	open func(t *testing.T, store string) runner.Runner
}

// bench is one worker with a store, and a folder for the job.
type bench struct {
	suite
	t     *testing.T
	ctx   context.Context
	r     runner.Runner
	store string
	dir   string
}

// patience is how long any one thing may take on a machine that has much else to do.
const patience = 60 * time.Second

func (s suite) setup(t *testing.T) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	b := &bench{suite: s, t: t, ctx: ctx, store: t.TempDir(), dir: t.TempDir()}
	b.r = s.open(t, b.store)
	t.Cleanup(func() { b.check(b.r.Close()) })
	return b
}

// succeed starts the next worker on the same store.
func (b *bench) succeed() {
	b.t.Helper()
	b.check(b.r.Close())
	b.r = b.open(b.t, b.store)
}

func (b *bench) run(script ...string) runner.Run {
	return runner.Run{ID: "7.1", Command: fakerun.Command(script...), Env: fakerun.Env("BERTH_RESULT_FILE="+runner.ResultFile(b.state()),
		"BERTH_STOP_REASON_FILE="+runner.StopReasonFile(b.state())), Dir: b.dir}
}

func (b *bench) state() string { return filepath.Join(b.store, "runs", "7.1") }

// start starts a run and sees to its end.
func (b *bench) start(run runner.Run) *runner.Handle {
	b.t.Helper()
	h, err := b.r.Start(b.ctx, run)
	b.check(err)
	b.t.Cleanup(func() {
		select {
		case <-h.Done():
		default:
			h.Detach()
		}
	})
	return h
}

func (b *bench) wait(h *runner.Handle) runner.Exit {
	b.t.Helper()
	exit, err := h.Wait(b.ctx)
	b.check(err)
	if words, err := os.ReadFile(filepath.Join(h.Dir(), "shim.log")); err == nil && len(words) > 0 {
		b.t.Errorf("the shim had to say: %s", words)
	}
	return exit
}

// adopt expects the next worker to find the one run.
func (b *bench) adopt() *runner.Handle {
	b.t.Helper()
	handles, lost, err := b.r.Adopt(b.ctx)
	b.check(err)
	if len(handles) != 1 || len(lost) != 0 {
		b.t.Fatalf("adopted %d runs, lost %v; want the one", len(handles), lost)
	}
	b.t.Cleanup(handles[0].Detach)
	return handles[0]
}

func (b *bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// until waits for something the outside world does.
func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	for !ok() {
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("gave up waiting until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// follow reads the output until the test is over.
func (b *bench) follow(h *runner.Handle, offset int64) *runner.LogReader {
	log := h.Log(offset)
	b.t.Cleanup(func() { b.check(log.Close()) })
	return log
}

// text reads a run's whole output as it comes, both streams and the notices.
func (b *bench) text(h *runner.Handle) string {
	b.t.Helper()
	text, _ := b.textFrom(h, 0)
	return text
}

func (b *bench) textFrom(h *runner.Handle, offset int64) (string, int64) {
	b.t.Helper()
	log := b.follow(h, offset)
	var all bytes.Buffer
	for {
		f, err := log.Next(b.ctx)
		if errors.Is(err, io.EOF) {
			return all.String(), log.Offset()
		}
		b.check(err)
		all.Write(f.Data)
	}
}

// waitFor reads the output until it holds text, and returns where it stopped.
func (b *bench) waitFor(h *runner.Handle, text string) {
	b.t.Helper()
	log := b.follow(h, 0)
	var all strings.Builder
	for !strings.Contains(all.String(), text) {
		f, err := log.Next(b.ctx)
		if err != nil {
			b.t.Fatalf("waiting for %q in the output, got %q: %v", text, all.String(), err)
		}
		all.Write(f.Data)
	}
}

// pid reads the pid that a fakerun daemon left.
func (b *bench) pid(path string) (int, uint64) {
	b.t.Helper()
	var pid int
	b.until("there is a pid in "+path, func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(string(text))
		return err == nil
	})
	s, err := proc.Read(pid)
	b.check(err)
	return pid, s.Start
}

// shim is the process that holds the run together.
func (b *bench) shim() proc.Stat {
	b.t.Helper()
	var state struct {
		Shim struct{ PID int }
	}
	b.until("the run's state is written", func() bool {
		text, err := os.ReadFile(filepath.Join(b.state(), "state.json"))
		return err == nil && json.Unmarshal(text, &state) == nil
	})
	s, err := proc.Read(state.Shim.PID)
	b.check(err)
	return s
}

func (b *bench) killShim(sig syscall.Signal) {
	b.t.Helper()
	s := b.shim()
	b.check(proc.Signal(s.PID, s.Start, sig))
}

// nothingLeft checks that no process of the run's is alive, wherever it may hide.
func (b *bench) nothingLeft() {
	b.t.Helper()
	all, err := proc.All()
	b.check(err)
	for _, s := range all {
		env, _ := os.ReadFile("/proc/" + strconv.Itoa(s.PID) + "/environ") // may be gone
		if !s.Zombie() && bytes.Contains(env, []byte(b.store)) {
			b.t.Errorf("process %d of the run is still alive", s.PID)
		}
	}
}
