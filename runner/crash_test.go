package runner_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/fakerun"
)

// A worker of its own, in a process of its own, so that it can be killed and frozen.
const (
	workerKey    = "BERTH_TEST_WORKER"
	workerJob    = "BERTH_TEST_WORKER_JOB"
	workerLimits = "BERTH_TEST_WORKER_SESSION"
)

// beWorker starts one run, says so and goes on for ever.
func beWorker(store string) {
	r, err := runner.New(runner.Options{StoreDir: store})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	run := runner.Run{ID: "9.1", Command: fakerun.Command(strings.Split(os.Getenv(workerJob), "|")...), Env: fakerun.Env(), Dir: store}
	if session, err := time.ParseDuration(os.Getenv(workerLimits)); err == nil {
		run.Deadline, run.Grace = time.Now().Add(session), -1
	}
	if _, err := r.Start(context.Background(), run); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

// startWorker returns once the worker's run is under way.
func startWorker(t *testing.T, store, session string, job ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), workerKey+"="+store, workerJob+"="+strings.Join(job, "|"), workerLimits+"="+session)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "started\n" {
		t.Fatalf("the worker said %q: %v", line, err)
	}
	return cmd
}

func adoptOne(t *testing.T, store string) *runner.Handle {
	t.Helper()
	r, err := runner.New(runner.Options{StoreDir: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	handles, lost, err := r.Adopt(t.Context())
	if err != nil || len(handles) != 1 {
		t.Fatalf("adopted %d, lost %v: %v", len(handles), lost, err)
	}
	t.Cleanup(handles[0].Detach)
	return handles[0]
}

// kill -9 of the worker while the run writes: the next worker adopts it, and no line is lost or doubled.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	worker := startWorker(t, store, "", "lines=20000", "sleep=300ms", "lines=20000", "exit=17")
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()

	h := adoptOne(t, store)
	log := h.Log(0)
	defer log.Close()
	var text strings.Builder
	for {
		f, err := log.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text.Write(f.Data)
	}
	var want strings.Builder
	for range 2 {
		for i := range 20000 {
			fmt.Fprintf(&want, "line %d\n", i+1)
		}
	}
	if text.String() != want.String() {
		t.Errorf("%d bytes of log, want %d", text.Len(), want.Len())
	}
	exit, err := h.Wait(t.Context())
	if err != nil || exit.Code != 17 || exit.Cause != "" {
		t.Errorf("ended with %d %q (%v), want 17 by itself", exit.Code, exit.Cause, err)
	}
}

// A frozen worker cannot renew: the shim alone ends the run when the session is over.
func TestWorkerFrozen(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	worker := startWorker(t, store, "2s", "print=on", "hang")
	if err := worker.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(store, "runs", "9.1", "exit.json")); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the run goes on although its session is over")
		}
	}
	exit, err := adoptOne(t, store).Wait(t.Context())
	if err != nil || exit.Cause != runner.SessionLost {
		t.Errorf("ended with %q (%v), want session_lost", exit.Cause, err)
	}
}
