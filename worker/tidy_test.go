package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// A job that had an attempt here and ended elsewhere leaves no checkpoint for ever; one that goes on keeps it.
func TestCheckpointsOfJobsThatEndedElsewhereAreDropped(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	c := h.work("alpha")
	over := h.submit(job.Requirements{GPUs: 9}, "true")
	if _, err := h.queue.Cancel(t.Context(), queue.JobRef(over), "ann", ""); err != nil {
		t.Fatal(err)
	}
	h.result(queue.JobRef(over))
	waits := h.submit(job.Requirements{GPUs: 9}, "true")

	w := c.Worker
	folder := func(name string) string {
		dir := filepath.Join(w.store.Dir(), checkpoints, name)
		if err := os.MkdirAll(filepath.Join(dir, "epoch-7"), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	ended, forgotten := folder(queue.JobRef(over).String()), folder("999999")
	going, foreign := folder(queue.JobRef(waits).String()), folder("notes")

	w.tidyOnce(t.Context(), time.Now())
	if _, err := os.Stat(ended); err != nil {
		t.Errorf("it has only just ended: %v", err)
	}
	w.tidyOnce(t.Context(), time.Now().Add(2*keepCheckpoint))
	for _, dir := range []string{ended, forgotten} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, dir := range []string{going, foreign} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}
