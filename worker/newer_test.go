package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// An older worker is installed over a newer one: what that keeps of its run, be it the runner's words or the worker's,
// has a form that is not known. The run is left alone, other jobs run beside it on other GPUs, and it goes on under the
// newer worker when that is back.
func TestRunOfANewerBerthIsLeftAlone(t *testing.T) {
	for _, file := range []string{"run.json", "note"} {
		t.Run(file, func(t *testing.T) {
			h := newHouse(t, "")
			store, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
			old := h.process("alpha", store)
			spec := h.spec()
			spec.Command = counting(gate)
			ref := queue.JobRef(h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}}))
			before := h.running(ref)
			h.shipped(ref.Number)
			kill(t, old, syscall.SIGKILL)

			path := filepath.Join(store, "runs", ref.String()+".1", file)
			known, err := os.ReadFile(path)
			if noted := err == nil; noted && !bytes.HasPrefix(known, []byte(`{"version":1,`)) || !noted && file != "note" {
				t.Fatalf("%s is %.60q: %v", file, known, err)
			}
			if err := os.WriteFile(path, []byte(`{"version":2,"id":["of another type"],"claim":7}`), 0o600); err != nil {
				t.Fatal(err)
			}
			downgraded := h.process("alpha", store)
			r := h.result(queue.JobRef(h.send(job.Job{Spec: h.spec("print=fine"), Requirements: job.Requirements{GPUs: 1}})))
			if r.State != job.Succeeded || r.GPUInfo.GPUInfo.Details[0].UUID == before.Devices[0] {
				t.Errorf("the job beside it: %s (%s) on %v, the run of before has %v", r.State, r.Reason, r.GPUInfo, before.Devices)
			}
			if rec := h.record(ref); rec.State != job.Running || rec.Session != before.Session || len(rec.Attempts) != 1 {
				t.Errorf("the run of before is %s in session %s, attempts %+v", rec.State, rec.Session, rec.Attempts)
			}
			kill(t, downgraded, syscall.SIGTERM)

			if known == nil { // there was none yet: the first note stands in run.json
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, known, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			h.process("alpha", store)
			h.adopted(ref, before.Session)
			touch(t, gate)
			if r := h.result(ref); r.State != job.Succeeded || r.Attempt != 1 || len(r.Attempts) != 1 {
				t.Errorf("under the newer worker: %s (%s), attempts %+v", r.State, r.Reason, r.Attempts)
			}
			out, errs := h.logOf(ref.Number, 1)
			everyLineOnce(t, out, errs)
		})
	}
}

// What a newer Berth wrote says so, whatever types its fields have by then; damage is damage.
func TestNoteOfANewerBerth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"version":2,"claim":"elsewhere"}`: "a newer Berth's (version 2; this one knows up to 1): start that worker again",
		`{"version":1,"claim":"elsewhere"}`: "damaged",
		`{"version":1,`:                     "damaged",
	} {
		if _, err := decodeNote([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
