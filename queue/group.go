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
// last task has ended. How far it has come is the cursor in the group's record. It holds the group's message (of the
// jobs stream, or of a later round) all the while; when its clerk dies, that message brings the group to another one.
//
//	cursor 0 --window of tasks published, cursor moved by compare-and-set--> ... --> Count
//	outstanding = cursor - ended;   topped up to what the group's limits and the window allow
//	cancelled, or max_failures reached --what waits is ended, what runs is told or awaited--> closed
type keeper struct {
	c      *clerk
	msg    jetstream.Msg
	number uint64
	j      *job.Job
	limits throttle
	wake   chan struct{}

	list  roundList
	tally tally
}

// keep starts a keeper for a group, unless this clerk has one already; then it returns false.
func (c *clerk) keep(ctx context.Context, m jetstream.Msg, number uint64, j *job.Job) bool {
	k := &keeper{c: c, msg: m, number: number, j: j, limits: throttleOf(j, c.q.opts.Window), wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.keepers[number]; old != nil {
		return false // handed out again although it is kept: the next beat tells the broker
	}
	c.keepers[number] = k
	c.groups.Go(func() error {
		defer c.drop(k)
		k.run(ctx)
		return nil
	})
	return true
}

func (c *clerk) drop(k *keeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keepers, k.number)
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
	if err := k.enterRound(rec); err != nil {
		return false, err
	}
	switch {
	case rec.State.Final():
		return true, k.finalise(ctx, rec)
	case rec.Cancel != nil, rec.Group.Stopped != "":
		return k.windUp(ctx, rec)
	}
	now, err := k.progress(ctx, rec)
	if err != nil {
		return false, err
	}
	if err := k.c.q.wakeForTasks(ctx, k.number, rec); err != nil {
		return false, err
	}
	limit := maxFailures(k.j)
	switch {
	case now.ended >= k.list.count():
		return true, k.close(ctx, rec)
	case limit > 0 && now.failed >= limit:
		k.poke()
		return false, k.stop(ctx, failuresText(now.failed, limit))
	case rec.State == job.Held, rec.Waiting:
		return false, nil
	}
	return false, k.topUp(ctx, rec, rev, now)
}

// topUp releases the next tasks, as many as the limits allow.
func (k *keeper) topUp(ctx context.Context, rec *job.Record, rev uint64, now progress) error {
	n := k.limits.allow(now, k.list.count()-rec.Group.Next, func(i int) int { return k.gpusAt(rec.Group.Next + i) })
	if n == 0 {
		return nil
	}
	err := k.refill(ctx, rec, rev, n)
	switch {
	case errors.Is(err, ErrTooManyLanes):
		k.poke()
		return k.c.q.endUnclaimed(ctx, JobRef(k.number), ending{state: job.Dead, reason: "TooManyLanes", text: err.Error()})
	case errors.Is(err, errConflict): // the group was cancelled, held or changed meanwhile
		k.poke()
		return nil
	}
	return err
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
		if m == nil {
			continue
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
	return k.c.q.records.put(ctx, JobRef(k.number), rec, rev)
}

// task is the lane message of the task at a position of the round; nil where it needs none (any more).
func (k *keeper) task(ctx context.Context, group *job.Record, pos int) (*nats.Msg, error) {
	index, ok := k.list.at(pos)
	if !ok {
		return nil, fmt.Errorf("no task at position %d", pos)
	}
	if _, ended := k.tally.ended[index]; ended {
		return nil, nil // cancelled before its turn
	}
	ref := TaskRef(k.number, index)
	var rec *job.Record
	if k.list.later() {
		again, err := k.c.q.queueAgain(ctx, k.j, ref, group)
		if err != nil || again.State != job.Queued {
			return nil, err
		}
		rec = again
	}
	p := k.c.q.parcelFor(k.j, ref, rec)
	if group.Priority != nil && (rec == nil || rec.Priority == nil) {
		p.msg.Priority = *group.Priority
		p.lane.Band = job.BandOf(*group.Priority)
	}
	return k.c.q.prepare(ctx, p)
}

// awaitAll waits for asynchronous publishes; one that failed is published the patient way.
func (q *Queue) awaitAll(ctx context.Context, futures []jetstream.PubAckFuture) error {
	for _, f := range futures {
		select {
		case <-f.Ok():
		case refused := <-f.Err():
			q.log.Debug("published_again", "subject", f.Msg().Subject, "err", refused)
			if _, err := q.publish(ctx, f.Msg()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
