package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
}

// janitor compares the jobs stream, the records and the lanes, and puts back what is missing: every waiting job is kept
// twice, on the jobs stream and on a lane, because a work queue is the one kind of stream that has lost messages.
type janitor struct {
	q        *Queue
	low      uint64           // every job below has ended, and its result is out
	verified map[Ref]struct{} // ended at or above low, and their result is out
	tasksLow map[uint64]int   // by group: every task at a position below is verified
}

// RunJanitor does the janitor's duty while this process is elected, until ctx ends. Any number of workers may run it;
// holder is shown as who has it. every is the time between rounds, 0 for the usual minute.
func (q *Queue) RunJanitor(ctx context.Context, holder string, every time.Duration) error {
	if every <= 0 {
		every = tidyEvery
	}
	return q.elect(ctx, "janitor", holder, func(ctx context.Context) {
		jan := q.newJanitor(ctx)
		for sleep(ctx, every) == nil {
			did, err := jan.round(ctx)
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
	j := &janitor{q: q, low: 1, verified: map[Ref]struct{}{}, tasksLow: map[uint64]int{}}
	s, err := q.getLast(ctx, "KV_"+BucketKeys, "$KV."+BucketKeys+"."+keyLowWater, false)
	if err == nil {
		if n, err := strconv.ParseUint(string(s.Data), 10, 64); err == nil {
			j.low = max(n, 1)
		}
	}
	return j
}

// suspect is a job that should have a message on a lane and seems to have none.
type suspect struct {
	ref   Ref
	j     *job.Job
	epoch int // of its record, 0 for none
}

// round looks at everything once.
func (jan *janitor) round(ctx context.Context) (did Tidied, err error) {
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
	var suspects []suspect
	low, open := jan.low, false
	batch := make([]stored, 0, listWindow)
	flush := func() error {
		some, err := jan.look(ctx, scan, batch, &did)
		suspects = append(suspects, some...)
		for _, s := range batch {
			if _, ok := jan.verified[JobRef(s.Seq)]; ok && !open {
				low = s.Seq + 1
			} else {
				open = true
			}
		}
		batch = batch[:0]
		return err
	}
	if upTo >= jan.low {
		err = jan.q.scan(ctx, StreamJobs, prefixJobs+"*.*", jan.low, upTo, func(s stored) error {
			if batch = append(batch, s); len(batch) == listWindow {
				return flush()
			}
			return nil
		})
		if err = errors.Join(err, flush()); err != nil {
			return did, fmt.Errorf("look at the jobs: %w", err)
		}
	}
	if err := jan.putBack(ctx, suspects, &did); err != nil {
		return did, err
	}
	return did, jan.raise(ctx, low)
}

// dispatched is the number up to which the clerks have seen the jobs.
func (jan *janitor) dispatched(ctx context.Context) (uint64, error) {
	c, err := jan.q.js.Consumer(ctx, StreamJobs, consumerClerk)
	if err != nil {
		return 0, fmt.Errorf("the clerks' consumer: %w", err)
	}
	return c.CachedInfo().Delivered.Stream, nil
}

// raise moves the low-water mark and forgets what lies below it.
func (jan *janitor) raise(ctx context.Context, low uint64) error {
	if low <= jan.low {
		return nil
	}
	jan.low = low
	for ref := range jan.verified {
		if ref.Number < low {
			delete(jan.verified, ref)
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

// look compares a batch of jobs with their records and the lanes.
func (jan *janitor) look(ctx context.Context, scan laneScan, batch []stored, did *Tidied) ([]suspect, error) {
	var refs []Ref
	for _, s := range batch {
		if _, ok := jan.verified[JobRef(s.Seq)]; !ok {
			refs = append(refs, JobRef(s.Seq))
		}
	}
	records, err := jan.q.recordsOf(ctx, refs)
	if err != nil {
		return nil, err
	}
	var suspects []suspect
	for _, s := range batch {
		ref := JobRef(s.Seq)
		if _, ok := jan.verified[ref]; ok {
			continue
		}
		did.Jobs++
		rec := records[ref]
		j, err := decodeJob(&s)
		if err != nil && (rec == nil || !rec.State.Final()) {
			continue // the clerk has it
		}
		some, err := jan.lookAt(ctx, scan, ref, j, rec, did)
		if err != nil {
			return suspects, err
		}
		suspects = append(suspects, some...)
	}
	return suspects, nil
}

// lookAt compares one job, or a group with its tasks.
func (jan *janitor) lookAt(ctx context.Context, scan laneScan, ref Ref, j *job.Job, rec *job.Record, did *Tidied) ([]suspect, error) {
	switch {
	case rec != nil && rec.State.Final():
		return nil, jan.verify(ctx, ref, rec, did)
	case !ref.Task && isOverdue(j, rec, jan.q.now()):
		_, err := jan.q.expire(ctx, ref, j, rec)
		return nil, err
	case rec != nil && rec.Waiting && !ref.Task:
		return nil, errors.Join(jan.q.await(ctx, j, ref), jan.q.settleWait(ctx, j, ref, Ref{}))
	case j.IsGroup() && !ref.Task:
		return jan.lookAtTasks(ctx, scan, ref.Number, j, rec, did)
	case rec == nil && !ref.Task && entersWaiting(j):
		_, _, err := jan.q.enter(ctx, j, ref.Number)
		return nil, err
	case rec != nil && rec.State == job.Queued && rec.Near.Over(jan.q.now()):
		return nil, jan.q.settlePlace(ctx, j, ref)
	case rec == nil:
		if scan.has(ref, 1) {
			return nil, nil
		}
		return []suspect{{ref, j, 0}}, nil
	case scan.has(ref, rec.Epoch), rec.State == job.Held:
		return nil, nil
	case rec.State == job.Running:
		err := jan.q.takeFromDead(ctx, ref, rec)
		if errors.Is(err, ErrHeld) {
			return nil, nil
		}
		did.Lost++
		return []suspect{{ref, j, rec.Epoch}}, err
	}
	return []suspect{{ref, j, rec.Epoch}}, nil
}

func isOverdue(j *job.Job, rec *job.Record, now time.Time) bool {
	_, _, yes := overdue(j, rec, now)
	return yes && (rec == nil || rec.State != job.Running)
}

// lookAtTasks compares the tasks of a group that have been put on lanes.
func (jan *janitor) lookAtTasks(ctx context.Context, scan laneScan, number uint64, j *job.Job, rec *job.Record, did *Tidied) ([]suspect, error) {
	if rec == nil || rec.Group == nil {
		return nil, nil // its keeper has not begun
	}
	var suspects []suspect
	list := tasksOfRound(j, rec)
	low, open := jan.tasksLow[number], false
	for from := low; from < rec.Group.Next; from += listWindow {
		var refs []Ref
		for pos := from; pos < min(from+listWindow, rec.Group.Next); pos++ {
			if index, ok := list.At(pos); ok {
				refs = append(refs, TaskRef(number, index))
			}
		}
		records, err := jan.q.recordsOf(ctx, refs)
		if err != nil {
			return suspects, err
		}
		for i, ref := range refs {
			if _, ok := jan.verified[ref]; !ok {
				some, err := jan.lookAt(ctx, scan, ref, j, records[ref], did)
				if err != nil {
					return suspects, err
				}
				suspects = append(suspects, some...)
			}
			if _, ok := jan.verified[ref]; ok && !open {
				low = from + i + 1
			} else {
				open = true
			}
		}
	}
	jan.tasksLow[number] = low
	return suspects, nil
}

// verify makes sure that the result of an ended job is out.
func (jan *janitor) verify(ctx context.Context, ref Ref, rec *job.Record, did *Tidied) error {
	if rec.Result == nil {
		jan.verified[ref] = struct{}{}
		return nil
	}
	s, err := jan.q.getLast(ctx, StreamResults, resultSubject(rec.Result.Project, ref), true)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	round := 0
	if err == nil {
		var r struct{ Round int }
		if json.Unmarshal(s.Data, &r) == nil {
			round = r.Round
		}
	}
	if round < rec.Result.Round {
		if err := jan.q.publishEnd(ctx, ref, rec, "janitor"); err != nil {
			return err
		}
		did.Published++
	}
	jan.verified[ref] = struct{}{}
	return nil
}

// putBack gives a suspect a message of the next epoch, if after a moment and a second look it still has none. Should
// the old message turn up after all, it is forgotten.
func (jan *janitor) putBack(ctx context.Context, suspects []suspect, did *Tidied) error {
	if len(suspects) == 0 {
		return nil
	}
	if err := sleep(ctx, tidySettle); err != nil {
		return err
	}
	scan, err := jan.q.scanLanes(ctx)
	if err != nil {
		return err
	}
	for _, s := range suspects {
		if scan.has(s.ref, max(s.epoch, 1)) {
			continue
		}
		rec, changed, err := jan.nextEpoch(ctx, s)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		if err := jan.q.dispatch(ctx, jan.q.parcelFor(s.j, s.ref, rec)); err != nil {
			return err
		}
		did.Requeued++
	}
	return nil
}

func (jan *janitor) nextEpoch(ctx context.Context, s suspect) (rec *job.Record, changed bool, err error) {
	rec, err = jan.q.records.change(ctx, s.ref, func(rec *job.Record) (*job.Record, error) {
		changed = false
		switch {
		case rec == nil && s.epoch == 0:
			rec = jan.q.newRecord(s.j, s.ref)
		case rec == nil, rec.State != job.Queued, rec.Epoch != s.epoch:
			return nil, errNoChange // it has moved by itself
		}
		rec.Epoch++
		changed = true
		return rec, nil
	})
	return rec, changed, err
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
