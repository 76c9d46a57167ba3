package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A project with a limit has one list of who holds its GPUs, changed by compare-and-set only: a claim enters itself
// before it writes its job's record and leaves after it has ended, so the list is never shorter than what runs, and of
// many workers that would take the last GPU one gets it. Entries of sessions that have died are dropped by whoever finds
// the list full; each live session keeps its own entries right.

// heldGPUs is the value of such a list.
type heldGPUs struct {
	Holders map[string]holder `json:"holders"` // by number[.index]
}

type holder struct {
	Session string `json:"session"`
	GPUs    int    `json:"gpus"`
}

func (h heldGPUs) total() int {
	n := 0
	for _, x := range h.Holders {
		n += x.GPUs
	}
	return n
}

// projectTable is what this process knows of projects, kept fresh by a watch on their bucket.
type projectTable struct {
	mu      sync.Mutex
	set     map[string]Project
	held    map[string]int
	changed chan struct{} // of settings; closed and made anew

	cancel context.CancelFunc
	done   chan struct{}
}

func newProjectTable() *projectTable {
	return &projectTable{set: map[string]Project{}, held: map[string]int{}, changed: make(chan struct{})}
}

// follow reads the bucket as it is and then keeps the table fresh until close. freed is called when a project may have
// got room.
func (t *projectTable) follow(ctx context.Context, q *Queue, freed func()) error {
	kv, err := q.js.KeyValue(ctx, BucketProjects)
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watch, err := kv.WatchAll(run)
	if err != nil {
		cancel()
		return err
	}
	for {
		select {
		case e, ok := <-watch.Updates():
			if ok && e != nil {
				t.apply(e)
				continue
			}
			t.cancel, t.done = cancel, make(chan struct{})
			go t.run(run, watch, freed)
			return nil
		case <-ctx.Done():
			cancel()
			return errors.Join(ctx.Err(), watch.Stop())
		}
	}
}

func (t *projectTable) run(ctx context.Context, watch jetstream.KeyWatcher, freed func()) {
	defer close(t.done)
	defer func() { _ = watch.Stop() }() // fails only when the connection is gone
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-watch.Updates():
			if !ok {
				return
			}
			if e != nil && t.apply(e) {
				freed()
			}
		}
	}
}

func (t *projectTable) close() {
	if t.cancel == nil {
		return
	}
	t.cancel()
	<-t.done
}

// apply takes one change in and reports whether a project may have got room by it.
func (t *projectTable) apply(e jetstream.KeyValueEntry) (room bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := e.Operation() == jetstream.KeyValuePut
	if name, ok := strings.CutPrefix(e.Key(), prefixProjectHeld); ok {
		var h heldGPUs
		if there && json.Unmarshal(e.Value(), &h) != nil {
			return false
		}
		before := t.held[name]
		t.held[name] = h.total()
		return t.held[name] < before
	}
	name, ok := strings.CutPrefix(e.Key(), prefixProjectSet)
	if !ok {
		return false
	}
	var p Project
	if there && json.Unmarshal(e.Value(), &p) != nil {
		return false
	}
	delete(t.set, name)
	if there {
		t.set[name] = p
	}
	close(t.changed)
	t.changed = make(chan struct{})
	return true
}

// QuotaLeft is how many more GPUs the runs of a project may hold; limited is false where it has no limit. It is what this
// process has heard; a claim asks the list itself.
func (q *Queue) QuotaLeft(project string) (left int, limited bool) {
	t := q.projects
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.set[project]
	if !ok || p.MaxGPUs == nil {
		return 0, false
	}
	return max(0, *p.MaxGPUs-t.held[project]), true
}

// Weights are the weights of the projects that have one.
func (q *Queue) Weights() map[string]float64 {
	t := q.projects
	t.mu.Lock()
	defer t.mu.Unlock()
	weights := map[string]float64{}
	for name, p := range t.set {
		if p.Weight != nil {
			weights[name] = *p.Weight
		}
	}
	return weights
}

func (t *projectTable) maxGPUs(project string) (limit int, limited bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.set[project]
	if !ok || p.MaxGPUs == nil {
		return 0, false, t.changed
	}
	return *p.MaxGPUs, true, t.changed
}

func (t *projectTable) anyLimit() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.set {
		if p.MaxGPUs != nil {
			return true
		}
	}
	return false
}

func (q *Queue) readHeld(ctx context.Context, project string) (heldGPUs, uint64, error) {
	h := heldGPUs{}
	rev, err := q.readKey(ctx, BucketProjects, prefixProjectHeld+project, &h)
	if h.Holders == nil {
		h.Holders = map[string]holder{}
	}
	return h, rev, err
}

// changeQuota edits a project's list until it is written; edit returns errNoChange to leave it.
func (q *Queue) changeQuota(ctx context.Context, project string, edit func(h *heldGPUs) error) error {
	for {
		h, rev, err := q.readHeld(ctx, project)
		if err != nil {
			return err
		}
		if err := edit(&h); err != nil {
			if errors.Is(err, errNoChange) {
				return nil
			}
			return err
		}
		body, err := json.Marshal(h)
		if err != nil {
			return err
		}
		_, err = q.casKey(ctx, BucketProjects, prefixProjectHeld+project, body, rev, 0)
		if !errors.Is(err, errConflict) {
			return err
		}
	}
}

// enterQuota enters a claim that is about to be made, or says ErrQuota. Where the project has no limit it does nothing.
func (q *Queue) enterQuota(ctx context.Context, s *Session, project string, ref Ref, gpus int) error {
	limit, limited, _ := q.projects.maxGPUs(project)
	if !limited || gpus == 0 {
		return nil
	}
	s.noteQuota(ref, project)
	err := q.changeQuota(ctx, project, func(h *heldGPUs) error {
		delete(h.Holders, ref.String()) // of an attempt before, if any
		if h.total()+gpus > limit {
			if err := q.dropDeadHolders(ctx, h); err != nil {
				return err
			}
		}
		if used := h.total(); used+gpus > limit {
			return fmt.Errorf("%w: the runs of project %s hold %d of %d GPUs, this one needs %d", ErrQuota, project, used, limit, gpus)
		}
		h.Holders[ref.String()] = holder{s.id, gpus}
		return nil
	})
	if err != nil {
		s.forgetQuota(ref)
	}
	return err
}

// dropDeadHolders takes out the entries of sessions that are no more.
func (q *Queue) dropDeadHolders(ctx context.Context, h *heldGPUs) error {
	known := map[string]bool{}
	for key, x := range h.Holders {
		alive, asked := known[x.Session]
		if !asked {
			var err error
			if alive, err = q.alive(ctx, x.Session); err != nil {
				return err
			}
			known[x.Session] = alive
		}
		if !alive {
			delete(h.Holders, key)
		}
	}
	return nil
}

// leaveQuota takes a session's entry out. What cannot be taken out now is taken out by the session's next review.
func (q *Queue) leaveQuota(ctx context.Context, s *Session, ref Ref) {
	project, entered := s.quotaOf(ref)
	if !entered {
		return
	}
	err := q.changeQuota(ctx, project, func(h *heldGPUs) error {
		if h.Holders[ref.String()].Session != s.id {
			return errNoChange
		}
		delete(h.Holders, ref.String())
		return nil
	})
	if err != nil {
		q.log.Warn("quota_not_left", "job", ref.String(), "project", project, "err", err)
		return
	}
	s.forgetQuota(ref)
}

// reviewEvery is how often a session looks whether its entries are right.
const reviewEvery = 10 * time.Second

// keepQuotas keeps this session's entries right: claims that are not entered (their project had no limit then, or they
// came from the worker before) are, whatever the limit; entries without a claim are taken out.
func (s *Session) keepQuotas(ctx context.Context) {
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	for {
		_, _, changed := s.q.projects.maxGPUs("")
		if err := s.reviewQuotas(ctx); err != nil && ctx.Err() == nil {
			s.q.log.Warn("quotas_not_reviewed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-s.review:
		case <-tick.C:
		}
	}
}

func (s *Session) reviewQuotas(ctx context.Context) error {
	if !s.q.projects.anyLimit() {
		return nil
	}
	var all error
	for ref, c := range s.heldClaims() {
		gpus := len(c.Record().Devices)
		_, limited, _ := s.q.projects.maxGPUs(c.Job.Project)
		if _, entered := s.quotaOf(ref); entered || !limited || gpus == 0 {
			continue
		}
		all = errors.Join(all, s.enterRunning(ctx, c, gpus))
	}
	for _, ref := range s.staleQuotas() {
		s.q.leaveQuota(ctx, s, ref)
	}
	return all
}

// enterRunning enters a claim that runs already.
func (s *Session) enterRunning(ctx context.Context, c *Claim, gpus int) error {
	s.noteQuota(c.ref, c.Job.Project)
	s.quotaClaimed(c.ref)
	err := s.q.changeQuota(ctx, c.Job.Project, func(h *heldGPUs) error {
		h.Holders[c.ref.String()] = holder{s.id, gpus}
		return nil
	})
	if err == nil && s.heldClaims()[c.ref] != c { // it has ended meanwhile, and left before it was entered
		s.noteQuota(c.ref, c.Job.Project)
		s.q.leaveQuota(ctx, s, c.ref)
	}
	return err
}

// quotaEntry is an entry of this session's; claimed once its claim is made.
type quotaEntry struct {
	project string
	claimed bool
}

func (s *Session) noteQuota(ref Ref, project string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quotas == nil {
		s.quotas = map[Ref]quotaEntry{}
	}
	s.quotas[ref] = quotaEntry{project: project}
}

// quotaClaimed notes that the claim is made; one that is not entered (it came from the worker before) soon is.
func (s *Session) quotaClaimed(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.quotas[ref]; ok {
		e.claimed = true
		s.quotas[ref] = e
		return
	}
	select {
	case s.review <- struct{}{}:
	default:
	}
}

func (s *Session) forgetQuota(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.quotas, ref)
}

func (s *Session) quotaOf(ref Ref) (project string, entered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.quotas[ref]
	return e.project, ok
}

// heldClaims are the claims whose jobs run, not those that are being ended.
func (s *Session) heldClaims() map[Ref]*Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[Ref]*Claim, len(s.claims))
	for ref, c := range s.claims {
		if !c.isEnding() {
			all[ref] = c
		}
	}
	return all
}

// staleQuotas are entries whose claim was made and has ended.
func (s *Session) staleQuotas() (refs []Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, e := range s.quotas {
		if s.claims[ref] == nil && e.claimed {
			refs = append(refs, ref)
		}
	}
	return refs
}
