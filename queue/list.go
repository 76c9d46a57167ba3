package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthq/berth/job"
)

const (
	listPage   = 50    // jobs on a page that asks for no other number
	listWindow = 256   // jobs read at a time
	listBudget = 20000 // jobs looked at for one page of a narrow filter
)

// Filter narrows a list. Empty fields do not.
type Filter struct {
	Project string
	User    string
	Name    string
	States  []job.State
}

func (f Filter) fits(v JobView) bool {
	return (f.Project == "" || f.Project == v.Project) && (f.User == "" || f.User == v.User) &&
		(f.Name == "" || f.Name == v.Name) && (len(f.States) == 0 || slices.Contains(f.States, v.State))
}

// Page says which part of a list: Limit jobs with a number below Before, newest first.
type Page struct {
	Before uint64 // 0: from the newest
	Limit  int    // 0: 50
}

// List reads a page of jobs, newest first; a group is one line. next is the Before of the following page, 0 after the
// last one. A filter that fits few jobs may return a short page with a next: the search goes on there.
func (q *Queue) List(ctx context.Context, f Filter, p Page) (views []JobView, next uint64, err error) {
	if p.Limit <= 0 {
		p.Limit = listPage
	}
	state, err := q.streamState(ctx, StreamJobs, "")
	if err != nil {
		return nil, 0, err
	}
	before := state.LastSeq + 1
	if p.Before > 0 {
		before = min(before, p.Before)
	}
	for looked := uint64(0); before > state.FirstSeq && looked < listBudget; {
		size := min(uint64(listWindow), max(uint64(p.Limit-len(views)), 16))
		if len(f.States) > 0 || f.Project+f.User+f.Name != "" {
			size = listWindow
		}
		from := max(state.FirstSeq, before-min(size, before-1))
		window, err := q.window(ctx, from, before)
		if err != nil {
			return nil, 0, fmt.Errorf("list: %w", err)
		}
		looked += before - from
		for i := len(window) - 1; i >= 0; i-- {
			if !f.fits(window[i]) {
				continue
			}
			views = append(views, window[i])
			if len(views) == p.Limit {
				return views, nextPage(window[i].Number, state.FirstSeq), nil
			}
		}
		before = from
	}
	return views, nextPage(before, state.FirstSeq), nil
}

func nextPage(number, first uint64) uint64 {
	if number <= first {
		return 0
	}
	return number
}

// window reads the jobs from..before-1 with their records, in two requests.
func (q *Queue) window(ctx context.Context, from, before uint64) ([]JobView, error) {
	messages, err := q.batch(ctx, StreamJobs, map[string]any{"seq": from, "batch": before - from, "next_by_subj": prefixJobs + "*.*"})
	if err != nil {
		return nil, err
	}
	refs := make([]Ref, 0, len(messages))
	jobs := make([]*job.Job, 0, len(messages))
	for _, s := range messages {
		if s.Seq >= before {
			break
		}
		j, err := decodeJob(&s)
		if err != nil {
			j = &job.Job{ID: s.Header.Get(headerMsgID), SubmittedAt: s.Time}
			j.Project, j.User, _ = parseJobSubject(s.Subject)
		}
		refs, jobs = append(refs, JobRef(s.Seq)), append(jobs, j)
	}
	records, err := q.recordsOf(ctx, refs)
	if err != nil {
		return nil, err
	}
	views := make([]JobView, 0, len(refs))
	for i, ref := range refs {
		v := viewOf(jobs[i], ref, records[ref])
		if v.Tasks != nil {
			if v.Tasks.Ended, err = q.countEnded(ctx, jobs[i], ref.Number, records[ref]); err != nil {
				return nil, err
			}
			v.State = groupState(v)
		}
		views = append(views, v)
	}
	return views, nil
}

// recordsOf reads many records in one request; those that do not exist are not in the map.
func (q *Queue) recordsOf(ctx context.Context, refs []Ref) (map[Ref]*job.Record, error) {
	found := make(map[Ref]*job.Record, len(refs))
	if len(refs) == 0 {
		return found, nil
	}
	subjects := make([]string, len(refs))
	for i, ref := range refs {
		subjects[i] = q.records.subject(ref.String())
	}
	all, err := q.batch(ctx, "KV_"+BucketRecords, map[string]any{"multi_last": subjects})
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		ref, err := ParseRef(strings.TrimPrefix(s.Subject, q.records.subject("")))
		if err != nil || isMarker(&s) {
			continue
		}
		var rec job.Record
		if err := json.Unmarshal(s.Data, &rec); err != nil {
			return nil, fmt.Errorf("record %s is not readable: %w", ref, err)
		}
		found[ref] = &rec
	}
	return found, nil
}

// recordsOfMany is recordsOf for any number of jobs.
func (q *Queue) recordsOfMany(ctx context.Context, refs []Ref) (map[Ref]*job.Record, error) {
	found := make(map[Ref]*job.Record, len(refs))
	for some := range slices.Chunk(refs, listWindow) {
		records, err := q.recordsOf(ctx, some)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, records)
	}
	return found, nil
}

// ListTasks reads a page of a group's tasks by position, from 0. next is the position of the following page, 0 after
// the last one.
func (q *Queue) ListTasks(ctx context.Context, number uint64, from, limit int) (views []JobView, next int, err error) {
	if limit <= 0 {
		limit = listPage
	}
	limit = min(limit, listWindow)
	j, err := q.Job(ctx, number)
	if err != nil {
		return nil, 0, err
	}
	if !j.IsGroup() {
		return nil, 0, fmt.Errorf("%w: job %d is not a group", ErrBadRequest, number)
	}
	var refs []Ref
	for pos := from; pos < min(from+limit, j.Tasks.Count); pos++ {
		index, ok := j.Tasks.At(pos)
		if !ok {
			break
		}
		refs = append(refs, TaskRef(number, index))
	}
	records, err := q.recordsOf(ctx, append(refs, JobRef(number)))
	if err != nil {
		return nil, 0, err
	}
	group := records[JobRef(number)]
	for _, ref := range refs {
		v := viewOf(j, ref, records[ref])
		if group != nil {
			v = withGroup(v, group)
		}
		views = append(views, v)
	}
	if from+limit < j.Tasks.Count {
		next = from + limit
	}
	return views, next, nil
}

// Me is who asks, for "@last".
type Me struct{ Project, User string }

// Resolve finds the job that a person means: "1842", "1842.17", "@last", the first characters of an id, or a name (the
// newest job that has it). Ids and names are looked for among the last 20,000 jobs.
func (q *Queue) Resolve(ctx context.Context, text string, me Me) (Ref, error) {
	text = strings.TrimSpace(text)
	if ref, err := ParseRef(text); err == nil {
		return ref, nil
	}
	if text == "@last" {
		s, err := q.getLast(ctx, StreamJobs, jobSubject(me.Project, me.User), false)
		if errors.Is(err, ErrNotFound) {
			return Ref{}, fmt.Errorf("%w: %s has submitted nothing to project %s", ErrNotFound, me.User, me.Project)
		}
		if err != nil {
			return Ref{}, err
		}
		return JobRef(s.Seq), nil
	}
	return q.search(ctx, text, me)
}

func (q *Queue) search(ctx context.Context, text string, me Me) (Ref, error) {
	state, err := q.streamState(ctx, StreamJobs, "")
	if err != nil {
		return Ref{}, err
	}
	var byID []uint64
	before := state.LastSeq + 1
	for looked := uint64(0); before > state.FirstSeq && looked < listBudget; looked += listWindow {
		from := max(state.FirstSeq, before-min(listWindow, before-1))
		messages, err := q.batch(ctx, StreamJobs, map[string]any{
			"seq": from, "batch": before - from, "next_by_subj": prefixJobs + "*.*",
		})
		if err != nil {
			return Ref{}, err
		}
		for _, s := range slices.Backward(messages) {
			j, err := decodeJob(&s)
			switch {
			case err != nil || s.Seq >= before:
			case j.Spec.Name == text && (me.Project == "" || j.Project == me.Project):
				return JobRef(s.Seq), nil
			case len(text) >= 4 && strings.HasPrefix(j.ID, strings.ToLower(text)):
				byID = append(byID, s.Seq)
			}
		}
		before = from
	}
	switch len(byID) {
	case 0:
		return Ref{}, fmt.Errorf("%w: %q is no number, task, id or name of the last %d jobs", ErrNotFound, text, listBudget)
	case 1:
		return JobRef(byID[0]), nil
	}
	return Ref{}, fmt.Errorf("%w: %q begins the ids of %d jobs (%d, %d, ...); type more of it", ErrAmbiguous, text, len(byID), byID[0], byID[1])
}
