package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

const (
	// agesEvery is how often a worker looks how long the first jobs of lanes have waited.
	agesEvery = 10 * time.Second
	// agesAtATime bounds how many lanes it looks at; the others have their turn the next times.
	agesAtATime = 32
)

// ageBooks is since when the first job of each backlogged lane waits, as last looked at.
type ageBooks struct {
	mu    sync.Mutex
	since map[job.Lane]time.Time
	next  int // where the next look begins
}

// follow keeps the books fresh until ctx ends.
func (b *ageBooks) follow(ctx context.Context, w *Worker) {
	tick := time.NewTicker(min(agesEvery, max(w.cfg.AgeAfter/4, 50*time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := b.look(ctx, w); err != nil && ctx.Err() == nil {
			w.log.Debug("ages_not_read", "err", err) // the order is that of the last time
		}
	}
}

// look reads the heads of lanes that hold jobs and that ageing can move. One request says which those are.
func (b *ageBooks) look(ctx context.Context, w *Worker) error {
	held, err := w.cfg.Queue.LaneCounts(ctx)
	if err != nil {
		return err
	}
	var lanes []queue.LaneInfo
	for _, l := range w.cfg.Queue.Lanes() {
		if l.Lane.Band != job.BandHigh && held[l.Lane] > 0 && w.serves(l.Lane.Project) && w.pool.CanEver(l.Shape.Requirements) == nil {
			lanes = append(lanes, l)
		}
	}
	b.forget(held)
	crossed := false
	for _, l := range b.turn(lanes) {
		head, waits, err := w.cfg.Queue.LaneHead(ctx, l.Lane)
		if err != nil {
			return err
		}
		crossed = b.note(l.Lane, head.QueuedAt, waits, w.cfg.Now(), w.cfg.AgeAfter) || crossed
	}
	if crossed {
		w.pool.Nudge() // another order of lanes
	}
	return nil
}

// turn takes the next few lanes of a list.
func (b *ageBooks) turn(lanes []queue.LaneInfo) []queue.LaneInfo {
	if len(lanes) <= agesAtATime {
		return lanes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.next % len(lanes)
	b.next = from + agesAtATime
	return slices.Concat(lanes, lanes)[from : from+agesAtATime]
}

// note keeps what was seen and reports whether the lane has come of age by it.
func (b *ageBooks) note(lane job.Lane, since time.Time, waits bool, now time.Time, after time.Duration) (crossed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !waits {
		delete(b.since, lane)
		return false
	}
	if b.since == nil {
		b.since = map[job.Lane]time.Time{}
	}
	b.since[lane] = since
	return now.Sub(since) >= after
}

// forget drops lanes that hold nothing.
func (b *ageBooks) forget(held map[job.Lane]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.since, func(l job.Lane, _ time.Time) bool { return held[l] == 0 })
}

func (b *ageBooks) waits(now time.Time) map[job.Lane]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	waits := make(map[job.Lane]time.Duration, len(b.since))
	for lane, since := range b.since {
		waits[lane] = now.Sub(since)
	}
	return waits
}
