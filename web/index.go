package web

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// span is GPUs held by somebody for a time.
type span struct {
	machine    string
	devices    []string  // UUIDs
	start, end time.Time // end is zero while it runs
}

// task is what the index keeps of one task of a group.
type task struct {
	Index   int       `json:"index"`
	State   job.State `json:"state"`
	Machine string    `json:"machine,omitempty"`
}

// index is every job the broker keeps, small enough for a hundred thousand of them.
type index struct {
	mu    sync.RWMutex
	rows  []*row // by number
	by    map[uint64]*row
	tasks map[uint64]map[int]task
	spans map[queue.Ref][]span
	early map[queue.Ref]*job.Record // records that came before their job
	ahead map[string]time.Duration  // how far a machine's clock is ahead of ours; absent: not noticeably
	words map[string]string         // UUIDs and names that come again and again, once
}

func newIndex() *index {
	return &index{by: map[uint64]*row{}, tasks: map[uint64]map[int]task{}, spans: map[queue.Ref][]span{}, early: map[queue.Ref]*job.Record{}, ahead: map[string]time.Duration{}, words: map[string]string{}}
}

func (x *index) seeJob(v queue.JobView) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by[v.Number] != nil {
		return // told again after the broker was away; a job never changes
	}
	r := rowOf(v)
	x.by[v.Number] = r
	if n := len(x.rows); n == 0 || x.rows[n-1].Number < r.Number {
		x.rows = append(x.rows, r)
	} else {
		at, _ := slices.BinarySearchFunc(x.rows, r.Number, func(r *row, n uint64) int { return cmp.Compare(r.Number, n) })
		x.rows = slices.Insert(x.rows, at, r)
	}
	if rec, ok := x.early[v.Ref]; ok {
		delete(x.early, v.Ref)
		r.learn(rec)
	}
	if r.Tasks != nil {
		x.countTasks(r)
	}
}

func (x *index) seeRecord(ref queue.Ref, rec *job.Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if rec == nil {
		x.forget(ref)
		return
	}
	x.keepSpans(ref, rec)
	r := x.by[ref.Number]
	if ref.Task {
		x.seeTask(ref, rec, r)
		return
	}
	if r == nil {
		x.early[ref] = rec
		return
	}
	r.learn(rec)
}

func (x *index) seeTask(ref queue.Ref, rec *job.Record, group *row) {
	all := x.tasks[ref.Number]
	if all == nil {
		all = map[int]task{}
		x.tasks[ref.Number] = all
	}
	before, known := all[ref.Index]
	all[ref.Index] = task{Index: ref.Index, State: rec.State, Machine: rec.Machine}
	if group == nil || group.Tasks == nil {
		return
	}
	if known {
		group.Tasks.count(before.State, -1)
	}
	group.Tasks.count(rec.State, 1)
	if res := rec.Result; res != nil && res.GPUMonitoring != nil {
		group.Monitored = true
	}
}

func (x *index) countTasks(r *row) {
	for _, t := range x.tasks[r.Number] {
		r.Tasks.count(t.State, 1)
	}
}

func (t *tally) count(s job.State, by int) {
	t.States[s] += by
	if t.States[s] == 0 {
		delete(t.States, s)
	}
	if s.Final() {
		t.Ended += by
	}
}

// forget drops a job whose record is gone: the broker keeps it no more.
func (x *index) forget(ref queue.Ref) {
	delete(x.spans, ref)
	delete(x.early, ref)
	if ref.Task {
		return
	}
	delete(x.tasks, ref.Number)
	if r := x.by[ref.Number]; r != nil && r.State.Final() {
		delete(x.by, ref.Number)
		x.rows = slices.DeleteFunc(x.rows, func(r *row) bool { return r.Number == ref.Number })
	}
}

func (x *index) keepSpans(ref queue.Ref, rec *job.Record) {
	var all []span
	for _, a := range rec.Attempts {
		if len(a.Devices) == 0 || a.StartedAt.IsZero() {
			continue
		}
		s := span{machine: x.sameWord(a.Machine), devices: x.sameWords(a.Devices), start: a.StartedAt}
		if a.EndedAt != nil {
			s.end = *a.EndedAt
		} else if rec.State != job.Running {
			continue
		}
		all = append(all, s)
	}
	if all == nil {
		delete(x.spans, ref)
		return
	}
	x.spans[ref] = all
}

// sameWords is the list with strings that the index has already: a hundred thousand jobs hold few different GPUs.
func (x *index) sameWords(list []string) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = x.sameWord(w)
	}
	return out
}

func (x *index) sameWord(w string) string {
	known, ok := x.words[w]
	if !ok {
		known = strings.Clone(w)
		x.words[known] = known
	}
	return known
}

// wish is which jobs a reader wants to see.
type wish struct {
	text, project, user, machine string
	states                       []job.State
	kind                         string // "group": only groups; "lease": only leases
	sort                         string
	up                           bool
	offset, limit                int
}

func (w wish) fits(r *row) bool {
	switch {
	case w.project != "" && r.Project != w.project, w.user != "" && r.User != w.user, w.machine != "" && r.Machine != w.machine:
		return false
	case w.kind == "group" && r.Tasks == nil, w.kind == "lease" && r.Kind != "lease":
		return false
	case w.text == "":
		return true
	}
	return strings.HasPrefix(r.ID, w.text) || strings.Contains(strings.ToLower(r.Name), w.text) ||
		strings.Contains(strings.ToLower(r.Model), w.text) || strings.Contains(r.User, w.text)
}

// list returns a page of jobs and how many fit in all.
func (x *index) list(w wish) (page []row, total int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	w.text = strings.ToLower(strings.TrimSpace(w.text))
	fit := make([]*row, 0, len(x.rows))
	for _, r := range slices.Backward(x.rows) {
		if w.fits(r) && (len(w.states) == 0 || slices.Contains(w.states, r.shownState())) {
			fit = append(fit, r)
		}
	}
	if order, ok := orders[w.sort]; ok {
		slices.SortStableFunc(fit, func(a, b *row) int {
			if w.up {
				return order(a, b)
			}
			return order(b, a)
		})
	} else if w.up {
		slices.Reverse(fit)
	}
	from := min(max(w.offset, 0), len(fit))
	page = make([]row, 0, w.limit)
	for _, r := range fit[from:min(from+w.limit, len(fit))] {
		page = append(page, x.shown(r))
	}
	return page, len(fit)
}

func (r *row) shownState() job.State {
	if r.Tasks != nil && r.State == job.Queued && (r.Tasks.Ended > 0 || r.Tasks.States[job.Running] > 0) {
		return job.Running
	}
	return r.State
}

var orders = map[string]func(a, b *row) int{
	"name":     func(a, b *row) int { return cmp.Compare(a.Name, b.Name) },
	"user":     func(a, b *row) int { return cmp.Compare(a.User, b.User) },
	"project":  func(a, b *row) int { return cmp.Compare(a.Project, b.Project) },
	"state":    func(a, b *row) int { return cmp.Compare(a.shownState(), b.shownState()) },
	"gpus":     func(a, b *row) int { return cmp.Compare(a.GPUs, b.GPUs) },
	"model":    func(a, b *row) int { return cmp.Compare(a.Model, b.Model) },
	"machine":  func(a, b *row) int { return cmp.Compare(a.Machine, b.Machine) },
	"run":      func(a, b *row) int { return cmp.Compare(a.RunSeconds, b.RunSeconds) },
	"queued":   func(a, b *row) int { return a.QueuedAt.Compare(b.QueuedAt) },
	"priority": func(a, b *row) int { return cmp.Compare(a.Priority, b.Priority) },
}

// group is what the index knows of a group's tasks.
func (x *index) group(number uint64) (*tally, []task) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := x.by[number]
	if r == nil || r.Tasks == nil {
		return nil, nil
	}
	shown := x.shown(r)
	grid := make([]task, 0, len(x.tasks[number]))
	for _, t := range x.tasks[number] {
		grid = append(grid, t)
	}
	slices.SortFunc(grid, func(a, b task) int { return cmp.Compare(a.Index, b.Index) })
	return shown.Tasks, grid
}
