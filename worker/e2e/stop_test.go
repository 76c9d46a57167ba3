package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

// saving is a job that writes its state when it is asked to, notes why, and goes on from what it finds.
const saving = `
trap 'cp "$BERTH_STOP_REASON_FILE" why; echo 11 > "$BERTH_CHECKPOINT_DIR/step"' USR1
trap 'exit 7' INT
trap : TERM
[ -e "$BERTH_CHECKPOINT_DIR/step" ] && { cp "$BERTH_CHECKPOINT_DIR/step" resumed; exit 0; }
echo "$BERTH_JOB_ID $BERTH_ATTEMPT $$ -" > started
while :; do sleep 0.02; done
`

// A drain that has waited long enough tells the job to save its state, ahead of the stop signal and with the reason in
// a file; what it saved is there for the next attempt.
func TestCheckpointAheadOfADrain(t *testing.T) {
	h := newHouse(t)
	h.work("titan", nil, "--gpu-source", "sim:1x24Gi")
	ref := h.submit(0, h.saves(job.Checkpoint{Before: job.Duration(2 * time.Second)}))
	h.started()
	if err := h.queue.Drain(t.Context(), "titan", "root", "new driver", 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	why := h.appears("why")
	if !strings.HasPrefix(why, "drained\n") {
		t.Errorf("the reason the job found: %q", why)
	}
	if err := h.queue.Undrain(t.Context(), "titan", "root"); err != nil {
		t.Fatal(err)
	}
	r := h.result(ref)
	if r.State != job.Succeeded || len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeInterrupted {
		t.Errorf("%s, attempts %+v", r.State, r.Attempts)
	}
	if step := h.appears("resumed"); step != "11\n" {
		t.Errorf("the second attempt found step %q", step)
	}
	h.disappears(filepath.Join("titan", "checkpoints", ref.String()))
}

// The same ahead of the time limit. The job's own choice of stop signal ends it; TERM, which it ignores, is never sent.
func TestCheckpointAheadOfTheTimeLimit(t *testing.T) {
	h := newHouse(t)
	h.work("titan", nil, "--gpu-source", "sim:1x24Gi")
	ref := h.submit(0, h.saves(job.Checkpoint{Signal: "usr1", Before: job.Duration(2 * time.Second)}), func(j *job.Job) {
		j.Spec.TimeLimit = job.Duration(3 * time.Second)
	})
	why := h.appears("why")
	r := h.result(ref)
	if !strings.HasPrefix(why, "timeout\n") || r.State != job.TimedOut || r.Exit.Code != 7 {
		t.Errorf("reason %q, %s, exit %+v", why, r.State, r.Exit)
	}
}

func (h *house) saves(c job.Checkpoint) func(*job.Job) {
	return func(j *job.Job) {
		j.Spec.Checkpoint, j.Spec.Stop = &c, &job.Stop{Signal: "INT", Grace: job.Duration(patience)}
		h.does(strings.Replace(saving, "> started", "> "+h.pipe, 1))(j)
	}
}

// appears waits for a file in the job's folder.
func (h *house) appears(name string) string {
	h.t.Helper()
	var text []byte
	h.until(name+" appears", func() bool {
		text, _ = os.ReadFile(filepath.Join(h.dir, name)) // not there yet
		return len(text) > 0
	})
	return string(text)
}

func (h *house) disappears(name string) {
	h.t.Helper()
	h.until(name+" disappears", func() bool {
		_, err := os.Lstat(filepath.Join(h.dir, name))
		return errors.Is(err, os.ErrNotExist)
	})
}

// until looks again and again: a file is no event.
func (h *house) until(what string, is func() bool) {
	h.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !is(); {
		select {
		case <-tick.C:
		case <-limit:
			h.t.Fatalf("never: %s", what)
		}
	}
}
