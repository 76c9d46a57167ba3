package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berthq/berth/job"
)

const (
	// tidyEvery is how often the janitor goes round.
	tidyEvery = time.Minute

	// tidySettle is how long a suspicion must stand before something is put back.
	tidySettle = 2 * time.Second

	// keyLowWater remembers between janitors below which number every job has ended and is published.
	keyLowWater = "janitor.low"
)

// Tidied says what one round of the janitor has put right.
type Tidied struct {
	Jobs      int // looked at
	Requeued  int // had no message on any lane, got one of the next epoch
	Lost      int // were held by a dead session and had no message to tell anybody
	Published int // results that a crash had left in the record
	Lanes     int // were made known again
	Retired   int // lanes nobody has used for a day
	TooOld    int // waited for longer than jobs are kept
}

// janitor compares the jobs stream, the records and the lanes, and puts back what is missing: every waiting job is kept
// twice, on the jobs stream and on a lane, because a work queue is the one kind of stream that has lost messages.
//
// What it remembers lets it pass by most of a long queue: a job whose message stands on its lane is the concern of
// whoever gets that, and one that waits for others is told of by their end.
type janitor struct {
	q        *Queue
	low      uint64           // every job below has ended, and its result is out
	verified numbers          // ended at or above low, and their result is out
	tasks    map[Ref]struct{} // the same of tasks
	tasksLow map[uint64]int   // by group: every task at a position below is verified
	timeless numbers          // of its own it never becomes overdue, and it has no tasks
	awaiting numbers          // waits for others, which has been written down
	rested   time.Duration    // in this round, waiting for a suspicion to settle
}

// tidyShare: of the janitor's time at most one part in so many is spent going round.
const tidyShare = 10

// RunJanitor does the janitor's duty while this process is elected, until ctx ends. Any number of workers may run it;
// holder is shown as who has it. The same one adds up what the machines hold. every is the time between rounds, 0 for
// the usual minute.
func (q *Queue) RunJanitor(ctx context.Context, holder string, every time.Duration) error {
	if every <= 0 {
		every = tidyEvery
	}
	return q.elect(ctx, "janitor", holder, func(ctx context.Context) {
		var books sync.WaitGroup
		defer books.Wait()
		books.Go(func() { q.keepHoldings(ctx) })
		jan := q.newJanitor(ctx)
		for pause := every; sleep(ctx, pause) == nil; {
			began := time.Now()
			did, err := jan.round(ctx)
			took := time.Since(began) - jan.rested
			pause = max(every, (tidyShare-1)*took)
			q.log.Debug("janitor_round", "looked_at", did.Jobs, "took", took)
			if err != nil && ctx.Err() == nil {
				q.log.Warn("janitor_interrupted", "err", err)
			}
			if did.Requeued+did.Lost+did.Published+did.Lanes > 0 {
				q.log.Warn("janitor_repaired", "requeued", did.Requeued, "lost", did.Lost, "published", did.Published, "lanes", did.Lanes)
			}
		}
	})
}

func (q *Queue) newJanitor(ctx context.Context) *janitor {
	j := &janitor{
		q: q, low: 1, verified: numbers{}, tasks: map[Ref]struct{}{}, tasksLow: map[uint64]int{}, timeless: numbers{}, awaiting: numbers{},
	}
	s, err := q.getLast(ctx, "KV_"+BucketKeys, "$KV."+BucketKeys+"."+keyLowWater, false)
	if err == nil {
		if n, err := strconv.ParseUint(string(s.Data), 10, 64); err == nil {
			j.low = max(n, 1)
		}
	}
	return j
}

// round looks at everything once.
func (jan *janitor) round(ctx context.Context) (did Tidied, err error) {
	jan.rested = 0
	upTo, err := jan.dispatched(ctx)
	if err != nil {
		return did, err
	}
	scan, err := jan.q.scanLanes(ctx)
	if err != nil {
		return did, err
	}
	if err := jan.lanes(ctx, scan, &did); err != nil {
		return did, err
	}
	if err := jan.sweep(ctx, &did); err != nil {
		return did, fmt.Errorf("sweep: %w", err)
	}
	var suspects []suspect
	for from := jan.low; from <= upTo; {
		batch, next, err := jan.batch(ctx, scan, from, upTo)
		if err != nil {
			return did, fmt.Errorf("look at the jobs: %w", err)
		}
		some, err := jan.look(ctx, scan, batch, &did)
		if err != nil {
			return did, fmt.Errorf("look at the jobs: %w", err)
		}
		suspects, from = append(suspects, some...), next
	}
	if err := jan.putBack(ctx, suspects, &did); err != nil {
		return did, err
	}
	return did, jan.raise(ctx, upTo)
}

// batch reads the jobs of the next window that there is something to see about. Jobs that are too old to be kept leave a
// gap at the beginning of the stream, which counts as verified.
func (jan *janitor) batch(ctx context.Context, scan laneScan, from, upTo uint64) (batch []stored, next uint64, err error) {
	for jan.passes(scan, from) && from <= upTo {
		from++
	}
	if from > upTo {
		return nil, from, nil
	}
	batch, err = jan.q.batch(ctx, StreamJobs, map[string]any{"seq": from, "batch": listWindow, "next_by_subj": prefixJobs + "*.*"})
	if err != nil || len(batch) == 0 {
		return nil, upTo + 1, err
	}
	for n := from; n < batch[0].Seq; n++ {
		jan.verified.add(n)
	}
	next = batch[len(batch)-1].Seq + 1
	batch = slices.DeleteFunc(batch, func(s stored) bool { return s.Seq > upTo || jan.passes(scan, s.Seq) })
	return batch, next, nil
}

// passes reports whether there is nothing to see about a job: it has ended and that is out, or its message is on a lane.
func (jan *janitor) passes(scan laneScan, number uint64) bool {
	return jan.verified.has(number) || scan.fresh.has(number) && jan.timeless.has(number)
}

// dispatched is the number up to which the clerks have seen the jobs.
func (jan *janitor) dispatched(ctx context.Context) (uint64, error) {
	c, err := jan.q.js.Consumer(ctx, StreamJobs, consumerClerk)
	if err != nil {
		return 0, fmt.Errorf("the clerks' consumer: %w", err)
	}
	return c.CachedInfo().Delivered.Stream, nil
}

// raise moves the low-water mark to the first job up to there that is not verified, and forgets what lies below it.
func (jan *janitor) raise(ctx context.Context, upTo uint64) error {
	low := jan.low
	for low <= upTo && jan.verified.has(low) {
		low++
	}
	if low == jan.low {
		return nil
	}
	jan.low = low
	for _, known := range []numbers{jan.verified, jan.timeless, jan.awaiting} {
		known.forgetBelow(low)
	}
	for ref := range jan.tasks {
		if ref.Number < low {
			delete(jan.tasks, ref)
		}
	}
	for number := range jan.tasksLow {
		if number < low {
			delete(jan.tasksLow, number)
		}
	}
	m := newMsg("$KV."+BucketKeys+"."+keyLowWater, strconv.AppendUint(nil, low, 10))
	_, err := jan.q.publish(ctx, m)
	return err
}

// lanes makes lanes known again that hold jobs and that no worker sees, and takes those out of the list that nobody has
// used for a day. Their consumer ends by itself when nobody pulls from it any more.
func (jan *janitor) lanes(ctx context.Context, scan laneScan, did *Tidied) error {
	now := time.Now()
	for lane, needs := range scan.lanes {
		if _, known := jan.q.lanes.heat(lane); known {
			continue
		}
		shape := job.ShapeOf(needs)
		if shape.ID != lane.Shape {
			continue // made by another version: its worker knows the shape
		}
		if err := jan.q.ensureLane(ctx, lane, shape, 0); err != nil {
			return err
		}
		did.Lanes++
	}
	for _, l := range jan.q.Lanes() {
		if _, used := scan.lanes[l.Lane]; used || l.heat.usedWithin(laneIdle, now) {
			continue
		}
		err := jan.q.deleteKey(ctx, BucketShapes, laneKey(l.Lane), l.heat.rev)
		if err != nil && !errors.Is(err, errConflict) {
			return err
		}
		did.Retired++
	}
	return nil
}
