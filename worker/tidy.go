package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/berthq/berth/queue"
)

const (
	// tidyEvery is how often the checkpoint folders are looked through.
	tidyEvery = time.Hour

	// keepCheckpoint is how long one outlives its job: somebody may retry it in the same moment.
	keepCheckpoint = time.Hour
)

// tidyCheckpoints drops the checkpoint folders of jobs that ended elsewhere, now and every hour: the machine on which a
// job ends drops its own, and those on which earlier attempts ran hear nothing of it.
func (w *Worker) tidyCheckpoints(ctx context.Context) {
	for ctx.Err() == nil {
		w.tidyOnce(ctx, w.cfg.Now())
		pause(ctx, tidyEvery)
	}
}

func (w *Worker) tidyOnce(ctx context.Context, now time.Time) {
	entries, err := os.ReadDir(filepath.Join(w.store.Dir(), checkpoints))
	if err != nil {
		w.log.Warn("checkpoints_not_tidied", "err", err)
		return
	}
	for _, e := range entries {
		ref, err := queue.ParseRef(e.Name())
		if err != nil || !w.isOver(ctx, ref, now) {
			continue // not ours, or still of use
		}
		if err := w.store.DropCheckpoint(e.Name()); err != nil {
			w.log.Warn("checkpoint_kept", "job", e.Name(), "err", err)
			continue
		}
		w.log.Info("checkpoint_dropped", "job", e.Name(), "why", "the job ended elsewhere")
	}
}

// isOver reports whether a job has ended long enough ago, or has been forgotten. In doubt it has not.
func (w *Worker) isOver(ctx context.Context, ref queue.Ref, now time.Time) bool {
	v, err := w.cfg.Queue.Show(ctx, ref)
	if err != nil {
		return errors.Is(err, queue.ErrNotFound)
	}
	return v.State.Final() && v.EndedAt != nil && now.Sub(*v.EndedAt) > keepCheckpoint
}
