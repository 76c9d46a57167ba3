package e2e

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry/fakenvml"
)

// A hundred jobs share a card and touch their memory late: what they were promised is kept for them, so the card is
// never overfilled.
func TestBurstOfLateAllocatorsNeverOverfills(t *testing.T) {
	const jobs, eachMB, fit = 100, 2100, 11 // 24000 MB can be allocated
	h, f := newHouse(t), newFake(t, 1)
	h.work("titan", f, "--slots", "100")
	for range jobs {
		h.submit(1, func(j *job.Job) { j.Requirements.Share, j.Requirements.GPUMemoryMB = job.Shared, eachMB })
	}
	var running []start
	allocate := func(list []start) { // of those, and nobody else
		var held []fakenvml.Process
		for _, s := range list {
			held = append(held, fakenvml.Process{PID: s.pid, MemoryMB: eachMB, SM: 5})
		}
		f.GPU(0).Processes(held...)
	}
	for done := 0; done < jobs; {
		for len(running) < min(fit, jobs-done) {
			running = append(running, h.started())
		}
		late := len(running) / 2
		allocate(running[:late])
		if done == 0 { // the worker has seen half of it: the rest is free by the gauge, and promised
			h.sees("titan", "half the jobs' memory", func(m queue.Machine) bool {
				return m.GPUs[0].MemoryFreeMB != nil && *m.GPUs[0].MemoryFreeMB == int64(24000-late*eachMB)
			})
		}
		select {
		case s := <-h.starts:
			t.Fatalf("job %s was given a place on a card that is full of promises", s.ref)
		default:
		}
		ends := running[:max(late, 1)]
		running = append([]start(nil), running[len(ends):]...)
		allocate(running) // late ones touch theirs while others leave
		for _, s := range ends {
			h.end(s, 0)
		}
		done += len(ends)
	}
}

func TestOutOfMemoryLowersTheSlotsAndRaisesTheNeed(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	h.work("titan", f, "--slots", "2", "--shrink-for", "3s")
	ref := h.submit(1, func(j *job.Job) {
		j.Requirements.Share, j.Requirements.GPUMemoryMB = job.Shared, 4000
		j.Spec.Retry = &job.Retry{Retries: 1, Backoff: &job.Backoff{Initial: job.Duration(1e6), Max: job.Duration(1e6)}}
		j.Spec.Command = job.Command{"sh", "-c", `[ $BERTH_ATTEMPT = 1 ] || { ` + h.script("") + `}
echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" >&2; exit 1`}
	})
	second := h.started()
	m := h.sees("titan", "one slot less on a card", func(m queue.Machine) bool { return m.GPUs[0].Slots+m.GPUs[1].Slots == 3 })
	lowered := 0
	if m.GPUs[1].Slots == 1 {
		lowered = 1
	}
	if second.gpus != f.uuids[1-lowered] {
		t.Error("the retry is on the card whose memory was full, though the other is free")
	}
	v, err := h.queue.Show(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if v.Record == nil || v.Record.Requirements.GPUMemoryMB <= 4000 {
		t.Errorf("the retry asks for no more than before: %+v", v.Record)
	}
	f.GPU(1 - lowered).Processes(fakenvml.Process{PID: second.pid, MemoryMB: 3000, SM: 50})
	h.sees("titan", "what the retry uses", func(m queue.Machine) bool {
		return m.GPUs[1-lowered].MemoryFreeMB != nil && *m.GPUs[1-lowered].MemoryFreeMB == 21000
	})
	h.sees("titan", "all slots again", func(m queue.Machine) bool { return m.GPUs[0].Slots == 2 && m.GPUs[1].Slots == 2 })
	f.GPU(1 - lowered).Processes()
	h.end(second, 0)
	r := h.result(ref)
	if err := h.queue.Retry(t.Context(), ref, "ann", false); err != nil {
		t.Fatal(err)
	}
	again := h.started()
	if v, err = h.queue.Show(t.Context(), ref); err != nil || v.Record.Requirements.GPUMemoryMB != 4000 {
		t.Errorf("a new round, after 3000 MB in use, does not ask for 4000 again: %+v, %v", v.Record, err)
	}
	h.end(again, 0)
	if r.State != job.Succeeded || r.Attempts[0].Outcome != job.OutcomeOOMGPU || !strings.Contains(r.Attempts[0].Evidence, "CUDA out of memory") {
		t.Errorf("%s after %+v", r.State, r.Attempts)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}

func renameFile(from, to string) error { return os.Rename(from, filepath.Clean(to)) }
