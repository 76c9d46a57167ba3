package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
)

// ErrParent says that a job names one to wait for that there is not.
var ErrParent = errors.New("there is no such job to wait for")

var (
	numberRange = regexp.MustCompile(`^([0-9]+)-([0-9]+)$`)
	taskRange   = regexp.MustCompile(`^([0-9]+)\.([0-9]+-[0-9]+(?::[0-9]+)?)$`)
)

// mostParents bounds what a range may stand for.
const mostParents = 1000

// NameParents replaces the words by which a job names those it waits for, and the one whose GPUs it prefers, with their
// numbers, and checks that each is there. It may be called before Submit, which does the same. ErrParent, ErrAmbiguous.
func (q *Queue) NameParents(ctx context.Context, j *job.Job) error {
	var all []job.Dependency
	for _, d := range j.Spec.DependsOn {
		var names []string
		for _, word := range d.Jobs {
			refs, err := q.parentsMeant(ctx, j, word)
			if err != nil {
				return fmt.Errorf("depends_on %s: %w", word, err)
			}
			for _, ref := range refs {
				names = append(names, ref.String())
			}
		}
		if len(d.Jobs) > 1 {
			all = append(all, job.Dependency{Jobs: names, AnyEnd: d.AnyEnd})
			continue
		}
		for _, name := range names { // a range is all of it
			all = append(all, job.Dependency{Jobs: []string{name}, AnyEnd: d.AnyEnd})
		}
	}
	if len(all) > mostParents {
		return fmt.Errorf("%w: depends_on stands for %d jobs, at most %d are allowed", ErrParent, len(all), mostParents)
	}
	j.Spec.DependsOn = slices.Clip(all)
	return q.nameNear(ctx, j)
}

func (q *Queue) parentsMeant(ctx context.Context, j *job.Job, word string) ([]Ref, error) {
	refs, err := rangeOf(word)
	if err != nil {
		return nil, err
	}
	if refs == nil {
		ref, err := q.Resolve(ctx, word, Me{Project: j.Project, User: j.User})
		if errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("%w: %w", ErrParent, err)
		}
		if err != nil {
			return nil, err
		}
		refs = []Ref{ref}
	}
	for _, ref := range refs {
		parent, err := q.Job(ctx, ref.Number)
		if errors.Is(err, errGarbage) {
			continue // it has ended dead
		}
		if err == nil {
			err = checkMember(parent, ref)
		}
		if errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("%w: %s", ErrParent, ref)
		}
		if err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// rangeOf reads 12-15 (jobs) and 12.1-8 (tasks of one group); nil: it is no range.
func rangeOf(word string) ([]Ref, error) {
	var refs []Ref
	if m := numberRange.FindStringSubmatch(word); m != nil {
		first, err1 := strconv.ParseUint(m[1], 10, 64)
		last, err2 := strconv.ParseUint(m[2], 10, 64)
		if err1 != nil || err2 != nil || first == 0 || last < first || last-first >= mostParents {
			return nil, fmt.Errorf("%w: %s is no range of at most %d jobs", ErrParent, word, mostParents)
		}
		for n := first; n <= last; n++ {
			refs = append(refs, JobRef(n))
		}
	}
	if m := taskRange.FindStringSubmatch(word); m != nil {
		group, err := ParseRef(m[1])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrParent, err)
		}
		a, err := job.ParseArray(m[2])
		if err != nil || a.Count() > mostParents {
			return nil, fmt.Errorf("%w: %s is no range of at most %d tasks", ErrParent, strings.TrimSpace(word), mostParents)
		}
		for _, i := range a.All() {
			refs = append(refs, TaskRef(group.Number, i))
		}
	}
	return refs, nil
}
