package operator

import (
	"context"
	"errors"
	"regexp"
	"strconv"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/queue"
)

// rangeMost is how many jobs or tasks one range may name: more than anybody types by hand on purpose.
const rangeMost = 10_000

// refs finds the jobs that the words mean: a number, a task, a range of either ("1842-1850", "1842.3-17"), the
// beginning of an id, a name, or @last. Numbers of a range that no job has are left out, unless none has one.
func refs(ctx context.Context, g *cli.Globals, q *queue.Queue, words []string) ([]queue.Ref, error) {
	var found []queue.Ref
	for _, w := range words {
		several, err := parseRange(w)
		switch {
		case err != nil:
			return nil, err
		case several != nil:
			there, err := existing(ctx, q, w, several)
			if err != nil {
				return nil, err
			}
			found = append(found, there...)
			continue
		}
		ref, err := q.Resolve(ctx, w, cli.Me(g.Env()))
		if err != nil {
			return nil, cli.Broker(err)
		}
		found = append(found, ref)
	}
	return found, nil
}

// rangeForm has no leading zeros, which the ids of jobs begin with.
var rangeForm = regexp.MustCompile(`^(?:([1-9]\d*)\.)?(0|[1-9]\d*)-(0|[1-9]\d*)$`)

// parseRange gives what a range names; nil when the word is no range.
func parseRange(word string) ([]queue.Ref, error) {
	m := rangeForm.FindStringSubmatch(word)
	if m == nil {
		return nil, nil
	}
	from, errFrom := strconv.Atoi(m[2])
	to, errTo := strconv.Atoi(m[3])
	if errFrom != nil || errTo != nil || from > to {
		return nil, exit.Errorf(exit.Usage, "%s is no range: want the smaller number first", word)
	}
	if to-from >= rangeMost {
		return nil, exit.Errorf(exit.Usage, "%s names %d jobs; a range may name %d", word, to-from+1, rangeMost)
	}
	var all []queue.Ref
	for n := from; n <= to; n++ {
		text := strconv.Itoa(n)
		if m[1] != "" {
			text = m[1] + "." + text
		}
		if ref, err := queue.ParseRef(text); err == nil {
			all = append(all, ref)
		}
	}
	return all, nil
}

// existing leaves out what is not there.
func existing(ctx context.Context, q *queue.Queue, word string, all []queue.Ref) ([]queue.Ref, error) {
	var there []queue.Ref
	for _, ref := range all {
		_, err := q.Show(ctx, ref)
		if errors.Is(err, queue.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, cli.Broker(err)
		}
		there = append(there, ref)
	}
	if len(there) == 0 {
		return nil, exit.Errorf(exit.Failed, "no job has a number of %s", word)
	}
	return there, nil
}
