package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
)

// roundList is the tasks that a group's present round is about, in order: all of them in the first one, the listed ones
// in a later one. A later list is read once, not with every task.
type roundList struct {
	round   int
	array   job.Array
	indexes []int // of a later round
}

// enterRound reads the list of the record's round.
func (k *keeper) enterRound(rec *job.Record) error {
	if k.list.round == rec.Round {
		return nil
	}
	text := rec.Group.Only
	if text == "" {
		text = k.j.Tasks.Indexes
	}
	a, err := job.ParseArray(text)
	if err != nil {
		return fmt.Errorf("the tasks of group %d: %w", k.number, err)
	}
	k.list = roundList{round: rec.Round, array: a}
	if rec.Round > 1 {
		for _, index := range a.All() {
			k.list.indexes = append(k.list.indexes, index)
		}
	}
	k.tally = tally{}
	return nil
}

func (l roundList) later() bool { return l.round > 1 }

func (l roundList) count() int { return l.array.Count() }

func (l roundList) at(pos int) (int, bool) {
	if l.indexes == nil {
		return l.array.At(pos)
	}
	if pos < 0 || pos >= len(l.indexes) {
		return 0, false
	}
	return l.indexes[pos], true
}

// tasksOfRound is the same list for those who look at a group from outside.
func tasksOfRound(j *job.Job, rec *job.Record) job.Tasks {
	if rec == nil || rec.Group == nil || rec.Group.Only == "" {
		return *j.Tasks
	}
	return job.Tasks{Indexes: rec.Group.Only, Count: rec.Group.Count}
}

// tally is which tasks of the round have ended and how, from their results, each read once.
type tally struct {
	seen  uint64 // of the results stream
	ended map[int]job.State
	low   int // all positions below have ended
}

// count takes in the results that have come since the last time.
func (k *keeper) count(ctx context.Context, rec *job.Record) error {
	t := &k.tally
	if t.ended == nil {
		t.ended, t.seen = map[int]job.State{}, rec.Group.After
	}
	filter := prefixResults + k.j.Project + "." + strconv.FormatUint(k.number, 10) + ".*"
	err := k.c.q.scan(ctx, StreamResults, filter, t.seen+1, 0, func(m stored) error {
		t.seen = m.Seq
		if index, err := strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]); err == nil {
			t.ended[index] = job.State(m.Header.Get(HeaderState))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("results of the tasks of %d: %w", k.number, err)
	}
	return nil
}

// progress counts: by one request where that is enough, by every result where it matters which task ended and how.
func (k *keeper) progress(ctx context.Context, rec *job.Record) (progress, error) {
	if !k.limits.ofItsOwn() && maxFailures(k.j) == 0 {
		ended, err := k.c.q.endedInRound(ctx, k.j.Project, k.number, rec)
		return progress{out: rec.Group.Next - ended, ended: ended}, err
	}
	if err := k.count(ctx, rec); err != nil {
		return progress{}, err
	}
	now := progress{ended: len(k.tally.ended)}
	for _, state := range k.tally.ended {
		if isFailure(state) {
			now.failed++
		}
	}
	now.out, now.gpus = k.underWay(rec)
	return now, nil
}

// underWay counts the tasks that have been released and have not ended. A task that was cancelled before its turn has
// ended without ever being one of them.
func (k *keeper) underWay(rec *job.Record) (tasks, gpus int) {
	for pos := k.tally.low; pos < rec.Group.Next; pos++ {
		index, _ := k.list.at(pos)
		if _, over := k.tally.ended[index]; over {
			if pos == k.tally.low {
				k.tally.low++
			}
			continue
		}
		tasks++
		gpus += k.gpusAt(pos)
	}
	return tasks, gpus
}

// gpusAt is how many GPUs the task at a position of the round needs.
func (k *keeper) gpusAt(pos int) int {
	if len(k.j.Tasks.Requirements) == 0 {
		return k.j.Requirements.GPUs
	}
	index, ok := k.list.at(pos)
	if !ok {
		return 0
	}
	return requirementsOf(k.j, TaskRef(k.number, index)).GPUs
}

// endedInRound is how many tasks of the present round have ended, in one request.
func (q *Queue) endedInRound(ctx context.Context, project string, number uint64, rec *job.Record) (int, error) {
	from := uint64(1)
	if rec != nil && rec.Group != nil {
		from = rec.Group.After + 1
	}
	filter := prefixResults + project + "." + strconv.FormatUint(number, 10) + ".*"
	n, err := q.countSubjectsFrom(ctx, StreamResults, filter, from)
	if err != nil {
		return 0, fmt.Errorf("count the ended tasks of %d: %w", number, err)
	}
	return n, nil
}

// countEnded is for those who look at a group: how many of all its tasks have ended.
func (q *Queue) countEnded(ctx context.Context, j *job.Job, number uint64, rec *job.Record) (int, error) {
	ended, err := q.endedInRound(ctx, j.Project, number, rec)
	return j.Tasks.Count - tasksOfRound(j, rec).Count + ended, err
}
