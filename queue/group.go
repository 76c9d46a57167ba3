package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

const (
	// recountEvery is how often a keeper counts the finished tasks without having heard of one.
	recountEvery = 5 * time.Second

	// recountSoonest spreads the counting while tasks end in swarms.
	recountSoonest = 50 * time.Millisecond
)

// keeper looks after one group: it keeps a window of its tasks on lanes, never all of them, and ends the group when the
// last task has ended. How far it has come is the cursor in the group's record. It holds the group's message on the
// jobs stream all the while; when its clerk dies, that message brings the group to another one.
//
//	cursor 0 --window of tasks published, cursor moved by compare-and-set--> ... --> Count
//	outstanding = cursor - finished;   topped up to the window when half of it is used
type keeper struct {
	c      *clerk
	msg    jetstream.Msg
	number uint64
	j      *job.Job
	window int
	wake   chan struct{}
}

// keep starts a keeper for a group, unless this clerk has one already.
func (c *clerk) keep(ctx context.Context, m jetstream.Msg, number uint64, j *job.Job) error {
	k := &keeper{c: c, msg: m, number: number, j: j, window: c.q.opts.Window, wake: make(chan struct{}, 1)}
	if limit := maxConcurrent(j); limit > 0 {
		k.window = min(k.window, limit)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.keepers[number]; old != nil {
		return nil // handed out again although it is kept: the next beat tells the broker
	}
	c.keepers[number] = k
	c.groups.Go(func() error {
		defer c.drop(k)
		k.run(ctx)
		return nil
	})
	return nil
}

func (c *clerk) drop(k *keeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keepers, k.number)
}

// maxConcurrent is how many tasks of the group may be under way at once, 0 for any number.
func maxConcurrent(j *job.Job) int {
	if j.Tasks.MaxConcurrent > 0 {
		return j.Tasks.MaxConcurrent
	}
	if j.Spec.Group != nil && j.Spec.Group.MaxConcurrent > 0 {
		return j.Spec.Group.MaxConcurrent
	}
	return 0
}

// onNews wakes the keeper of a group when one of its tasks has ended (berth.results.<project>.<number>.<index>) or its
// record was changed (berth.notify.group.<number>). What it misses is found by the next count.
func (c *clerk) onNews(m *nats.Msg) {
	tokens := strings.Split(m.Subject, ".")
	number, err := strconv.ParseUint(tokens[3], 10, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	k := c.keepers[number]
	c.mu.Unlock()
	if k != nil {
		k.poke()
	}
}

func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run keeps the group until it has ended or ctx does.
func (k *keeper) run(ctx context.Context) {
	beat := time.NewTicker(min(clerkAckWait, k.c.q.opts.AckWait) / 3)
	defer beat.Stop()
	recount := time.NewTicker(recountEvery)
	defer recount.Stop()
	for {
		over, err := k.turn(ctx)
		switch {
		case ctx.Err() != nil:
			giveBack(k.msg, 0)
			return
		case err != nil:
			k.c.q.log.Warn("group_not_kept", "job", k.number, "err", err)
			giveBack(k.msg, time.Second)
			return
		case over:
			_ = k.msg.Ack() // if it gets lost the group comes again, and is over again
			return
		}
		if !k.wait(ctx, beat.C, recount.C) {
			giveBack(k.msg, 0)
			return
		}
	}
}

// wait returns true when it is time for another turn.
func (k *keeper) wait(ctx context.Context, beat, recount <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-beat:
			_ = k.msg.InProgress() // without it the group is handed out again, at worst twice
		case <-recount:
			return true
		case <-k.wake:
			return sleep(ctx, recountSoonest) == nil
		}
	}
}

// turn tops the window up and reports whether the group is over.
func (k *keeper) turn(ctx context.Context) (over bool, err error) {
	ref := JobRef(k.number)
	rec, rev, err := k.c.q.records.get(ctx, ref)
	if err != nil {
		return false, err
	}
	if rec == nil {
		rec = k.c.q.newRecord(k.j, ref)
	}
	if rec.Group == nil {
		rec.Group = &job.GroupRecord{Count: k.j.Tasks.Count}
	}
	if rec.State.Final() {
		return true, k.finalise(ctx, rec)
	}
	finished, err := k.c.q.countTasks(ctx, k.j.Project, k.number)
	if err != nil {
		return false, err
	}
	if finished >= k.j.Tasks.Count {
		return true, k.close(ctx)
	}
	free := k.window - (rec.Group.Next - finished)
	if rec.State == job.Held || free < refillStep(k.window) {
		return false, nil
	}
	err = k.refill(ctx, rec, rev, min(free, rec.Group.Count-rec.Group.Next))
	switch {
	case errors.Is(err, ErrTooManyLanes):
		k.poke()
		return false, k.c.q.endUnclaimed(ctx, ref, ending{state: job.Dead, reason: "TooManyLanes", text: err.Error()})
	case errors.Is(err, errConflict): // the group was cancelled, held or changed meanwhile
		k.poke()
		return false, nil
	}
	return false, err
}

// finalise sees to it that nothing of an ended group is left on lanes. After a cancel some tasks may be there, up to a
// window beyond the cursor.
func (k *keeper) finalise(ctx context.Context, rec *job.Record) error {
	if rec.State != job.Succeeded && rec.State != job.Failed && rec.Group != nil {
		why := job.Cancel{By: "berth", At: k.c.q.now(), Reason: "its group ended " + string(rec.State)}
		if rec.Cancel != nil {
			why = *rec.Cancel
		}
		for pos := range min(rec.Group.Next+k.window, rec.Group.Count) {
			index, ok := k.j.Tasks.At(pos)
			if !ok {
				break
			}
			_, err := k.c.q.cancelOne(ctx, TaskRef(k.number, index), why)
			if err != nil && !errors.Is(err, ErrFinal) {
				return err
			}
		}
	}
	return k.c.q.publishEnd(ctx, JobRef(k.number), rec, "group")
}

// refillStep is how many tasks must have ended before the window is topped up: every single one where few may run at a
// time, half of the window otherwise.
func refillStep(window int) int {
	if window <= 64 {
		return 1
	}
	return window / 2
}

// refill publishes the next n tasks and moves the cursor past them. A crash in between publishes them again under the
// same ids.
func (k *keeper) refill(ctx context.Context, rec *job.Record, rev uint64, n int) error {
	futures := make([]jetstream.PubAckFuture, 0, n)
	for pos := rec.Group.Next; pos < rec.Group.Next+n; pos++ {
		m, err := k.task(ctx, rec, pos)
		if err != nil {
			return err
		}
		f, err := k.c.q.js.PublishMsgAsync(m)
		if err != nil {
			return err
		}
		futures = append(futures, f)
	}
	if err := k.c.q.awaitAll(ctx, futures); err != nil {
		return err
	}
	if err := k.c.q.step("group:cursor"); err != nil {
		return err
	}
	rec.Group.Next += n
	_, err := k.c.q.records.put(ctx, JobRef(k.number), rec, rev)
	return err
}

func (k *keeper) task(ctx context.Context, rec *job.Record, pos int) (*nats.Msg, error) {
	index, ok := k.j.Tasks.At(pos)
	if !ok {
		return nil, fmt.Errorf("no task at position %d", pos)
	}
	p := k.c.q.parcelFor(k.j, TaskRef(k.number, index), nil)
	if rec.Priority != nil {
		p.msg.Priority = *rec.Priority
		p.lane.Band = job.BandOf(*rec.Priority)
	}
	return k.c.q.prepare(ctx, p)
}

// awaitAll waits for asynchronous publishes; one that failed is published the patient way.
func (q *Queue) awaitAll(ctx context.Context, futures []jetstream.PubAckFuture) error {
	for _, f := range futures {
		select {
		case <-f.Ok():
		case <-f.Err():
			if _, err := q.publish(ctx, f.Msg()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// close ends the group: succeeded if all tasks did, else failed.
func (k *keeper) close(ctx context.Context) error {
	states, err := k.c.q.TaskStates(ctx, k.j.Project, k.number)
	if err != nil {
		return err
	}
	outcome := job.OutcomeSucceeded
	if states[job.Succeeded] < k.j.Tasks.Count {
		outcome = job.OutcomeFailed
	}
	ref := JobRef(k.number)
	rec, _, err := k.c.q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil {
			rec = k.c.q.newRecord(k.j, ref)
		}
		if rec.State.Final() {
			return nil, errNoChange
		}
		rec.Group = &job.GroupRecord{Count: k.j.Tasks.Count, Next: k.j.Tasks.Count, States: states}
		k.c.q.closeRecord(k.j, ref, rec, job.Result{Outcome: outcome, Reason: stateCounts(states)})
		return rec, nil
	})
	if err != nil {
		return err
	}
	return k.c.q.publishEnd(ctx, ref, rec, "group")
}
