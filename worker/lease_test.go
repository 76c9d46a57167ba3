package worker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/proc"
)

// lease asks for GPUs for somebody.
func (h *house) lease(user string, gpus int, how *job.Lease) queue.Ref {
	h.t.Helper()
	r, err := h.queue.Submit(h.t.Context(), job.Job{
		Project: "lab", User: user, Requirements: job.Requirements{GPUs: gpus},
		Spec: job.Spec{Kind: job.KindLease, Lease: how, Resources: job.Resources{GPUs: job.CountOf(gpus)}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return queue.JobRef(r.Number)
}

// held waits until a lease is its holder's.
func (h *house) held(ref queue.Ref) job.Record {
	h.t.Helper()
	rec, err := h.queue.WaitLease(h.t.Context(), ref)
	if err != nil {
		h.t.Fatal(err)
	}
	if rec.State != job.Running {
		h.t.Fatalf("lease %s ended %s: %s", ref, rec.State, rec.ReasonText)
	}
	return rec
}

func (h *house) give(ref queue.Ref, user string) job.Result {
	h.t.Helper()
	if _, err := h.queue.ReleaseLease(h.t.Context(), ref, user, "", false); err != nil {
		h.t.Fatal(err)
	}
	return h.result(ref)
}

func lasting(d time.Duration) *job.Lease {
	f := job.Duration(d)
	return &job.Lease{For: &f}
}

// child is a process that lives until the test, or the test's end, ends it.
func child(t *testing.T, argv ...string) (p *job.Process, end func()) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
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
	return &job.Process{PID: cmd.Process.Pid, Start: int(stat.Start), Boot: proc.BootID()}, end
}

func TestLeaseHoldsItsGPUUntilItIsReleased(t *testing.T) {
	h := newHouse(t, "2x24Gi")
	c := h.work("alpha")
	before := time.Now()
	ref := h.lease("ann", 2, nil)
	rec := h.held(ref)
	if len(rec.Lease.GPUs) != 2 || rec.Lease.GPUs[0].UUID != rec.Devices[0] || rec.Lease.Until.Before(before.Add(8*time.Hour)) {
		t.Errorf("lease %+v on %v", rec.Lease, rec.Devices)
	}
	if got := c.heldLeases(); len(got) != 1 || got[0].Number != ref.Number || got[0].User != "ann" {
		t.Errorf("held: %+v", got)
	}
	waits := h.submit(job.Requirements{GPUs: 1}, "exit=0")
	room, err := h.queue.AskRoom(t.Context(), "alpha", job.Requirements{GPUs: 1}, queue.Me{Project: "lab", User: "bob"})
	if err != nil || room.OK || room.Text == "" {
		t.Errorf("room beside the lease: %+v, %v", room, err)
	}
	if _, err := h.queue.ReleaseLease(t.Context(), ref, "bob", "", false); !errors.Is(err, queue.ErrNotAllowed) {
		t.Errorf("released by a stranger: %v", err)
	}
	if n := h.count(queue.StreamResults, "berth.results.lab.*"); n != 0 {
		t.Fatalf("%d jobs have ended while the lease was held", n)
	}
	if r := h.give(ref, "ann"); r.State != job.Succeeded || r.Reason != "released by ann" || r.GPUInfo == nil || r.GPUInfo.Count != 2 {
		t.Errorf("result %+v", r)
	}
	if r := h.result(queue.JobRef(waits)); r.State != job.Succeeded {
		t.Errorf("the job behind the lease: %s %s", r.State, r.Reason)
	}
	if _, err := h.queue.ReleaseLease(t.Context(), ref, "ann", "", false); !errors.Is(err, queue.ErrFinal) {
		t.Errorf("released twice: %v", err)
	}
	h.told(ref, "took", "released by ann")
}

// told waits until the log of leases has these words about one.
func (h *house) told(ref queue.Ref, words ...string) {
	h.t.Helper()
	var got []string
	for h.t.Context().Err() == nil && !slices.Equal(got, words) {
		events, err := h.queue.Events(h.t.Context(), queue.LeaseEvent, time.Time{})
		if err != nil {
			h.t.Fatal(err)
		}
		got = nil
		for _, e := range events {
			if e.Job == ref.String() {
				got = append(got, e.Text)
			}
		}
		if len(got) > len(words) {
			h.t.Fatalf("the log says %q, want %q", got, words)
		}
		pause(h.t.Context(), 5*time.Millisecond)
	}
}

func TestLeaseExpires(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	ref := h.lease("ann", 1, lasting(300*time.Millisecond))
	r := h.result(ref)
	if r.State != job.TimedOut || !strings.HasPrefix(r.Reason, "expired") || r.Attempt != 1 {
		t.Errorf("state %s, reason %q, attempt %d", r.State, r.Reason, r.Attempt)
	}
	if _, err := h.queue.ReleaseLease(t.Context(), ref, "ann", "", false); !errors.Is(err, queue.ErrFinal) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("release of an expired lease: %v", err)
	}
}

func TestLeaseIsExtended(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	ref := h.lease("ann", 1, lasting(time.Hour))
	h.held(ref)
	if err := h.queue.ExtendLease(t.Context(), ref, "ann", nil); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(300 * time.Millisecond)
	if err := h.queue.ExtendLease(t.Context(), ref, "ann", &soon); err != nil {
		t.Fatal(err)
	}
	if r := h.result(ref); r.State != job.TimedOut {
		t.Errorf("state %s: %s", r.State, r.Reason)
	}
}

func TestLeaseEndsWithItsProcess(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	c := h.work("alpha")
	p, end := child(t, "sh", "-c", "cat | cat") // with children of its own
	ref := h.lease("ann", 1, &job.Lease{Process: p})
	h.held(ref)
	for { // its processes are the lease's, not strangers'
		snap, err := c.sampler.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mine := 0
		for _, u := range snap.Readings[0].Processes {
			if u.Run == ref.String()+".1" {
				mine++
			}
		}
		if len(snap.Readings[0].Processes) >= 3 {
			if mine != len(snap.Readings[0].Processes) {
				t.Errorf("%d of %d processes are the lease's", mine, len(snap.Readings[0].Processes))
			}
			break
		}
		pause(t.Context(), 10*time.Millisecond) // the shell is starting them
	}
	end()
	if r := h.result(ref); r.State != job.Succeeded || !strings.Contains(r.Reason, "has ended") {
		t.Errorf("state %s, reason %q", r.State, r.Reason)
	}
}

// What nobody waits for any more is not given; the GPU goes to who is next.
func TestLeaseOfTheDeadIsNotGiven(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	first := h.lease("ann", 1, nil)
	h.held(first)
	asker, gone := child(t, "cat")
	process, ended := child(t, "cat")
	recycled := *process
	recycled.Start++
	dead := []queue.Ref{
		h.lease("ann", 1, &job.Lease{Asker: asker}), h.lease("ann", 1, &job.Lease{Process: process}),
		h.lease("ann", 1, &job.Lease{Asker: &recycled}), h.lease("ann", 1, &job.Lease{Asker: &job.Process{PID: os.Getpid(), Start: 1, Boot: "another boot"}}),
	}
	living := h.lease("bob", 1, nil)
	gone()
	ended()
	h.give(first, "ann")
	for _, ref := range dead {
		if r := h.result(ref); r.State != job.Cancelled || !strings.Contains(r.Reason, "process") {
			t.Errorf("lease %s: %s %q", ref, r.State, r.Reason)
		}
	}
	h.held(living)
}

func TestLeasesAreGivenInOrder(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	var all []queue.Ref
	for _, user := range []string{"ann", "bob", "ann", "cid", "bob", "ann"} {
		all = append(all, h.lease(user, 1, nil))
	}
	users := []string{"ann", "bob", "ann", "cid", "bob", "ann"}
	var last time.Time
	for i, ref := range all {
		rec := h.held(ref)
		if !rec.Lease.HeldAt.After(last) {
			t.Errorf("lease %s was given before the one in front of it", ref)
		}
		last = *rec.Lease.HeldAt
		h.give(ref, users[i])
	}
}

func TestLeaseSurvivesItsWorker(t *testing.T) {
	h := newHouse(t, "")
	store := t.TempDir()
	first := h.process("alpha", store)
	p, end := child(t, "cat")
	kept, ending := h.lease("ann", 1, nil), h.lease("ann", 1, &job.Lease{Process: p})
	before := h.held(kept)
	h.held(ending)
	kill(t, first, syscall.SIGKILL)

	// No worker is there: the locks stand, a wish waits, and a named process that ends is noticed all the same.
	if _, err := h.queue.ReleaseLease(t.Context(), kept, "bob", "", false); !errors.Is(err, queue.ErrNotAllowed) {
		t.Errorf("released by a stranger: %v", err)
	}
	later := time.Now().Add(24 * time.Hour).UTC()
	if err := h.queue.ExtendLease(t.Context(), kept, "ann", &later); err != nil {
		t.Fatal(err)
	}
	for _, lock := range before.Devices {
		if b, err := os.ReadFile(filepath.Join(h.locks, lock+".lock")); err != nil || !strings.Contains(string(b), kept.String()+".1") {
			t.Errorf("the lock of %s says %.80q (%v)", lock, b, err)
		}
	}
	end()
	exits, err := filepath.Glob(filepath.Join(store, "runs", ending.String()+".1"))
	if err != nil || len(exits) != 1 {
		t.Fatalf("runs %v, %v", exits, err)
	}
	appears(t, filepath.Join(exits[0], "exit.json"))

	h.process("alpha", store)
	after := h.adopted(kept, before.Session)
	if !slices.Equal(after.Devices, before.Devices) || !after.Lease.Until.Equal(later) || len(after.Attempts) != 1 {
		t.Errorf("before %v, after %v until %v", before.Devices, after.Devices, after.Lease.Until)
	}
	if r := h.result(ending); r.State != job.Succeeded || !strings.Contains(r.Reason, "has ended") {
		t.Errorf("the lease whose process ended meanwhile: %s %q", r.State, r.Reason)
	}
	if r := h.give(kept, "ann"); r.State != job.Succeeded {
		t.Errorf("after the restart: %s %q", r.State, r.Reason)
	}
}

// What happens to a held lease ends it; it is not given again, on other GPUs, to somebody who would not hear of it.
func TestHeldLeaseIsNeverGivenAgain(t *testing.T) {
	control := filepath.Join(t.TempDir(), "now")
	h := newHouse(t, "1x24Gi", func(h *house) { h.sim.Control = control })
	c := h.work("alpha", func(c *Config) { c.RestoreAfter = 100 * time.Millisecond })
	failed := h.lease("ann", 1, nil)
	h.held(failed)
	if err := os.WriteFile(control, []byte("0 xid 79\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := h.result(failed); r.State != job.Failed || r.Outcome != job.OutcomeGPUFault || r.Attempt != 1 || !strings.Contains(r.Evidence, "79") {
		t.Errorf("after the fault: %s, %s, attempt %d, %q", r.State, r.Outcome, r.Attempt, r.Evidence)
	}
	cancelled := h.lease("ann", 1, nil)
	h.held(cancelled)
	if _, err := h.queue.Cancel(t.Context(), cancelled, "root", "maintenance"); err != nil {
		t.Fatal(err)
	}
	if r := h.result(cancelled); r.State != job.Cancelled || !strings.Contains(r.Reason, "root") {
		t.Errorf("after the cancel: %s %q", r.State, r.Reason)
	}
	drained := h.lease("ann", 1, nil)
	h.held(drained)
	c.kill()
	if err := c.end(errDrain); err != nil {
		t.Fatal(err)
	}
	if r := h.result(drained); r.State != job.Failed || r.Outcome != job.OutcomeInterrupted || len(r.Attempts) != 1 {
		t.Errorf("after the drain: %s, %s, %d attempts", r.State, r.Outcome, len(r.Attempts))
	}
}
