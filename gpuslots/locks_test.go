package gpuslots_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
)

// neighbours are two workers of one machine with stores of their own.
func neighbours(t *testing.T, gpus int, slotsA, slotsB int) (a, b *box) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gpus")
	return newBox(t, gpus, gpuslots.Options{LockDir: dir, SlotsPerGPU: slotsA}),
		newBox(t, gpus, gpuslots.Options{LockDir: dir, SlotsPerGPU: slotsB})
}

func TestTwoWorkersNeverGiveAGPUTwice(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 4, 1, 1)
	seen := map[int]bool{}
	for i, box := range []*box{a, b, a, b} {
		alloc := box.get(string(rune('1'+i)), alone(0))
		if seen[index(alloc)] {
			t.Fatalf("GPU %d was given twice", index(alloc))
		}
		seen[index(alloc)] = true
		if len(alloc.LockFiles) != 1 {
			t.Fatalf("lock files: %v", alloc.LockFiles)
		}
	}
	b.look(time.Second)
	r := b.refused(gpuslots.Resources, alone(0))
	if !strings.Contains(r.Error(), "GPU 0 is held by another worker of this machine (run 1)") {
		t.Errorf("got %v", r)
	}
	if err := a.pool.Release("1"); err != nil {
		t.Fatal(err)
	}
	changed := b.pool.Changed()
	b.look(time.Second)
	select {
	case <-changed:
	default:
		t.Error("nobody was told that the neighbour left")
	}
	b.get("5", alone(0))
}

func TestSharedBetweenWorkersWithDifferentSlots(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 1, 4, 2)
	a.get("a1", shared(1000))
	b.get("b1", shared(1000))
	b.refused(gpuslots.Resources, shared(1000)) // its two slots are taken
	b.refused(gpuslots.Resources, alone(1000))
	a.get("a2", shared(1000))
	a.get("a3", shared(1000))
	a.refused(gpuslots.Resources, shared(1000))
}

// What one worker has promised is no other's to promise, though nobody uses it yet.
func TestPromisesAreSeenByTheOtherWorker(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 1, 4, 4)
	first := a.get("a1", shared(20000))
	b.refused(gpuslots.Memory, shared(5000)) // found out when it took the lock
	b.look(time.Second)
	b.refused(gpuslots.Memory, shared(5000))
	b.get("b1", shared(4000))
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	b.look(time.Second)
	b.get("b2", shared(20000))
}

// A lock behind a free slot is seen too.
func TestPromiseBehindAGapIsSeen(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 1, 8, 8)
	gap := a.get("a1", shared(1000))
	two := shared(10000)
	two.Slots = 2
	a.get("a2", two)
	a.get("a3", shared(10000))
	if err := gap.Release(); err != nil {
		t.Fatal(err)
	}
	b.look(time.Second)
	if got := b.pool.Status(b.clock()).GPUs[0].AvailableMB; got != 4576 {
		t.Errorf("%d MB", got)
	}
	b.refused(gpuslots.Memory, shared(5000))
}

func TestExclusiveLocksAllSlots(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 1, 1, 8)
	alloc := a.get("a1", alone(0))
	b.refused(gpuslots.Resources, shared(0))
	if err := alloc.Release(); err != nil {
		t.Fatal(err)
	}
	b.look(time.Second)
	b.get("b1", shared(0))
	a.look(time.Second)
	a.refused(gpuslots.Resources, alone(0))
}

// A gang that cannot have one of its GPUs keeps none of the others locked.
func TestLostRaceLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 2, 1, 1)
	b.get("b1", job.Requirements{GPUs: 1, GPUIDs: []string{"1"}})
	a.refused(gpuslots.Resources, job.Requirements{GPUs: 2}) // it found out late
	b.get("b2", job.Requirements{GPUs: 1, GPUIDs: []string{"0"}})
}

func TestWorkersRaceForGPUs(t *testing.T) {
	t.Parallel()
	const gpus, rounds = 4, 150
	a, b := neighbours(t, gpus, 1, 1)
	var holders [gpus]atomic.Int32
	var granted atomic.Int32
	var wg sync.WaitGroup
	for i, box := range []*box{a, b, a, b} {
		wg.Go(func() {
			name := string(rune('w' + i))
			for round := range rounds {
				box.look(0)
				alloc, err := box.try(name, job.Requirements{GPUs: 1 + round%2})
				if err != nil {
					if _, refused := gpuslots.AsRefusal(err); !refused {
						t.Error(err)
					}
					continue
				}
				granted.Add(1)
				for _, d := range alloc.Devices {
					if holders[d.Index].Add(1) != 1 {
						t.Errorf("GPU %d was given twice", d.Index)
					}
				}
				for _, d := range alloc.Devices {
					holders[d.Index].Add(-1)
				}
				if err := alloc.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if granted.Load() < rounds/10 {
		t.Errorf("only %d grants", granted.Load())
	}
}

const holdEnv = "BERTH_TEST_HOLD_UNTIL_EOF"

// shim starts a process that does nothing but keep what it inherits until its stdin ends.
func shim(t *testing.T, files ...*os.File) (stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), holdEnv+"=1")
	cmd.ExtraFiles = files
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil { // it runs
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() { once.Do(func() { _ = stdin.Close(); _ = cmd.Wait() }) }
	t.Cleanup(stop)
	return stop
}

func holdUntilEOF() {
	_, _ = os.Stdout.WriteString(".")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// crash closes what the kernel closes when a worker is killed.
func crash(a *gpuslots.Allocation) {
	for _, f := range a.LockFiles {
		_ = f.Close()
	}
}

// crashAlone is a crash that took the shim with it. A process that another test starts at this moment has copies of the
// files, and with them the locks, until it has closed them in its exec: that is waited for.
func crashAlone(t *testing.T, a *gpuslots.Allocation) {
	t.Helper()
	crash(a)
	for _, f := range a.LockFiles {
		free := make(chan error, 1)
		go func() { free <- lockOnce(f.Name()) }()
		select {
		case err := <-free:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("somebody has inherited %s", f.Name())
		}
	}
}

// lockOnce returns when nobody has a lock on the file.
func lockOnce(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &lock)
	}
	lock = unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart}
	return errors.Join(err, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock), f.Close())
}

func TestCrashedWorkerKeepsItsGPUsLocked(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]job.Requirements{
		"exclusive": {GPUs: 2},
		"shared":    {GPUs: 2, Share: job.Shared, Slots: 2, GPUMemoryMB: 20000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dead, other := neighbours(t, 2, 2, 2)
			alloc := dead.get("1842.1", req)
			stop := shim(t, alloc.LockFiles...)
			state := alloc.State()
			crash(alloc)

			other.look(time.Second)
			other.refused(gpuslots.Resources, req)
			mine := state
			mine.Holder = "77.1"
			if _, err := other.pool.Restore(mine); !errors.Is(err, gpuslots.ErrLocked) {
				t.Errorf("another worker took it over: %v", err)
			}

			next := newBox(t, 2, gpuslots.Options{LockDir: filepath.Dir(alloc.LockFiles[0].Name()), SlotsPerGPU: 2})
			next.processes(0, 0, ours("1842.1", 5000))
			next.look(time.Second)
			if got := next.state(0); got != gpuslots.StateElsewhere {
				t.Errorf("before it is adopted: state %s", got)
			}
			adopted, err := next.pool.Restore(state)
			if err != nil {
				t.Fatal(err)
			}
			if len(adopted.LockFiles) != 0 || len(adopted.Devices) != 2 {
				t.Errorf("its shim has the locks: %+v", adopted)
			}
			if g := next.pool.Status(next.clock()).GPUs[0]; g.State != gpuslots.StateBusy || len(g.Strays) != 0 {
				t.Errorf("before the next reading: %+v", g)
			}
			next.look(time.Second)
			g := next.pool.Status(next.clock()).GPUs[0]
			if g.State != gpuslots.StateBusy || len(g.Strays) != 0 || g.Active != 2 {
				t.Errorf("got %+v", g)
			}

			stop()
			if err := adopted.Release(); err != nil {
				t.Fatal(err)
			}
			other.look(time.Second)
			other.get("5", req)
		})
	}
}

// The shim has gone with the worker (the machine rebooted, or both were killed): the run's GPUs are locked again
// until the worker has found out what became of it.
func TestRestoreTakesTheLockWhenTheShimHasGone(t *testing.T) {
	t.Parallel()
	dead, other := neighbours(t, 1, 4, 4)
	alloc := dead.get("1.1", shared(1000))
	state := alloc.State()
	crashAlone(t, alloc)
	next := newBox(t, 1, gpuslots.Options{LockDir: filepath.Dir(alloc.LockFiles[0].Name()), SlotsPerGPU: 4})
	adopted, err := next.pool.Restore(state)
	if err != nil {
		t.Fatal(err)
	}
	if len(adopted.LockFiles) != 1 {
		t.Errorf("lock files %v", adopted.LockFiles)
	}
	other.look(time.Second)
	other.refused(gpuslots.Resources, alone(0))
	if err := adopted.Release(); err != nil {
		t.Fatal(err)
	}
	other.look(time.Second)
	other.get("2.1", alone(0))
}

// What a run of the last worker uses is its own from the moment it is restored, reading or no reading.
func TestRestoreKnowsTheRunsProcesses(t *testing.T) {
	t.Parallel()
	before := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 4})
	state := before.get("1", shared(2000)).State()
	b := newBox(t, 1, gpuslots.Options{SlotsPerGPU: 4})
	b.processes(0, 0, ours("1", 5000))
	b.look(time.Second)
	if got := b.state(0); got != gpuslots.StateDirty {
		t.Errorf("before: %s", got)
	}
	if _, err := b.pool.Restore(state); err != nil {
		t.Fatal(err)
	}
	g := b.pool.Status(b.clock()).GPUs[0]
	if g.State != gpuslots.StateReady || g.AvailableMB != 24576-5000 || len(g.Strays) != 0 {
		t.Errorf("got %+v", g)
	}
}

func TestRestoreErrors(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, gpuslots.Options{})
	state := b.get("1", alone(0)).State()
	if _, err := b.pool.Restore(state); !errors.Is(err, gpuslots.ErrHolderBusy) {
		t.Errorf("what is held already: %v", err)
	}
	state.Holder, state.UUIDs = "2", []string{"GPU-gone"}
	if _, err := b.pool.Restore(state); !errors.Is(err, gpuslots.ErrUnknownGPU) {
		t.Errorf("a GPU that is gone: %v", err)
	}
}

// A child that is not handed the lock does not have it.
func TestLocksAreNotInheritedByAccident(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 1, 1, 1)
	alloc := a.get("1", alone(0))
	shim(t)
	crashAlone(t, alloc)
	b.look(time.Second)
	b.get("2", alone(0))
}

// A release frees the GPU though the shim, about to exit, still has its copy of the descriptor.
func TestReleaseDoesNotWaitForTheShim(t *testing.T) {
	t.Parallel()
	a, b := neighbours(t, 1, 1, 1)
	alloc := a.get("1", alone(0))
	shim(t, alloc.LockFiles...)
	if err := alloc.Release(); err != nil {
		t.Fatal(err)
	}
	b.get("2", alone(0))
}

func TestBadLockFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gpuslots.New(gpuslots.Options{Devices: devices(1, 1000), LockDir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file instead of a folder: %v", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(file, filepath.Join(dir, uuid(0)+".lock")); err != nil {
		t.Fatal(err)
	}
	b := newBox(t, 1, gpuslots.Options{LockDir: dir})
	r := b.refused(gpuslots.GPUUnhealthy, alone(0))
	if !strings.Contains(r.Error(), uuid(0)+".lock") {
		t.Errorf("got %v", r)
	}
	if _, err := newBox(t, 1, gpuslots.Options{LockDir: t.TempDir()}).try(strings.Repeat("x", 500), alone(0)); err == nil {
		t.Error("a holder longer than its record was accepted")
	}
}
