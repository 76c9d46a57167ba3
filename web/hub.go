package web

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/queue"
)

const (
	eventsKept  = 2000
	eventsBack  = 7 * 24 * time.Hour
	pointsKept  = 24 * 60 // minutes of a machine
	askEvery    = 2 * time.Second
	askPatience = 3 * time.Second
	silentAfter = 20 * time.Second // a machine that says nothing for so long is gone
	wakeAtMost  = 250 * time.Millisecond
)

// heard is a machine and when it was heard of, by the clock of this process: its own may be wrong.
type heard struct {
	queue.Machine
	at time.Time
}

// hub follows the broker for all browsers.
type hub struct {
	q     *queue.Queue
	log   *slog.Logger
	now   func() time.Time
	index *index

	metrics *metrics.Registry

	mu       sync.Mutex
	machines map[string]heard // by key
	points   map[string][]json.RawMessage
	events   []queue.Event
	counts   queue.Counts
	broker   string // "", or why it does not answer
	caught   map[string]bool
	changed  map[string]bool // topics since the last wake
	wake     chan struct{}   // closed at the next wake
	version  uint64
	latest   map[string]uint64 // topic -> version
	follows  int
	loaded   chan struct{}
}

func newHub(q *queue.Queue, log *slog.Logger, now func() time.Time) *hub {
	h := &hub{q: q, log: log, now: now, index: newIndex(), machines: map[string]heard{}, points: map[string][]json.RawMessage{},
		caught: map[string]bool{}, changed: map[string]bool{}, latest: map[string]uint64{}, wake: make(chan struct{}), loaded: make(chan struct{})}
	h.metrics = h.newMetrics()
	return h
}

// run follows until ctx ends. Two goroutines: one listens, one asks whether the broker is there.
func (h *hub) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Add(2)
	go func() { defer wg.Done(); h.ask(ctx) }()
	go func() { defer wg.Done(); h.flush(ctx) }()
	defer wg.Wait()
	for ctx.Err() == nil {
		h.mu.Lock()
		h.events, h.points = nil, map[string][]json.RawMessage{}
		h.follows++
		h.mu.Unlock()
		err := h.q.Follow(ctx, queue.Changes{
			From: h.now().Add(-eventsBack), Job: h.seeJob, Record: h.seeRecord, Event: h.seeEvent, Point: h.seePoint,
			Machine: h.seeMachine, Gone: h.machineGone, Caught: h.caughtUp,
		})
		if ctx.Err() != nil {
			return
		}
		h.log.Warn("dashboard_follows_again", "err", err)
		wait(ctx, askEvery)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// ask reads the figures of the queue again and again, and so learns whether the broker is there.
func (h *hub) ask(ctx context.Context) {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, askPatience)
		counts, err := h.q.Counts(try)
		cancel()
		h.mu.Lock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if h.broker == "" {
				h.touch("broker")
			}
			h.broker = "the broker does not answer: " + err.Error()
		default:
			if h.broker != "" || counts != h.counts {
				h.touch("broker")
			}
			h.broker, h.counts = "", counts
		}
		h.mu.Unlock()
		wait(ctx, askEvery)
	}
}

// flush wakes the readers, at most four times a second however much happens.
func (h *hub) flush(ctx context.Context) {
	t := time.NewTicker(wakeAtMost)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		h.mu.Lock()
		if len(h.changed) > 0 {
			h.version++
			for topic := range h.changed {
				h.latest[topic] = h.version
			}
			clear(h.changed)
			close(h.wake)
			h.wake = make(chan struct{})
		}
		h.mu.Unlock()
	}
}

// touch notes that a topic changed; the caller holds the lock.
func (h *hub) touch(topics ...string) {
	for _, t := range topics {
		h.changed[t] = true
	}
	if len(h.latest) > 4096 { // jobs long forgotten
		clear(h.latest)
	}
}

func (h *hub) news(topics ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touch(topics...)
}

func (h *hub) seeJob(v queue.JobView) {
	h.index.seeJob(v)
	h.news("jobs")
}

func (h *hub) seeRecord(ref queue.Ref, rec *job.Record) {
	h.count(ref, rec)
	h.index.seeRecord(ref, rec)
	if h.isLoaded() {
		h.news("jobs", "job:"+queue.JobRef(ref.Number).String())
	}
}

func (h *hub) seeEvent(e queue.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	if len(h.events) > 2*eventsKept {
		h.events = slices.Clone(h.events[len(h.events)-eventsKept:])
	}
	h.touch("events")
}

func (h *hub) seePoint(data json.RawMessage) {
	var p struct {
		Machine string `json:"machine"`
	}
	if json.Unmarshal(data, &p) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.points[p.Machine]
	all = append(all, slices.Clone(data))
	if len(all) > pointsKept {
		all = slices.Clone(all[len(all)-pointsKept:])
	}
	h.points[p.Machine] = all
	h.touch("points")
}

func (h *hub) seeMachine(m queue.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if ahead := h.index.hear(m.Name, m.At, now); ahead != 0 {
		m.Warnings = append(slices.Clip(m.Warnings), warnOfClock(ahead))
	}
	m.At = now // when we heard of it
	h.machines[queue.MachineKey(m.Name)] = heard{m, now}
	h.touch("machines")
}

func (h *hub) machineGone(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.machines, key)
	h.touch("machines")
}

func (h *hub) caughtUp(stream string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.caught[stream] = true
	if len(h.caught) == 4 && !closed(h.loaded) {
		close(h.loaded)
		h.touch("jobs")
	}
}

func (h *hub) isLoaded() bool { return closed(h.loaded) }

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// fleet lists the machines that are there.
func (h *hub) fleet() []queue.Machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []queue.Machine{}
	for _, m := range h.machines {
		if h.broker != "" || h.now().Sub(m.at) < silentAfter {
			all = append(all, m.Machine)
		}
	}
	slices.SortFunc(all, func(a, b queue.Machine) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (h *hub) addProgress(list []row) {
	for i := range list {
		r := &list[i]
		r.Progress = h.progress(queue.JobView{Ref: queue.JobRef(r.Number), State: r.State, Machine: r.Machine})
	}
}

// progress is how far a running job says it is, as its machine announced it.
func (h *hub) progress(v queue.JobView) *job.Progress {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, said := h.machines[queue.MachineKey(v.Machine)].Progress[v.Ref.String()]
	if !said || v.State != job.Running {
		return nil
	}
	return &p
}

// eventsOf lists what happened, newest first; of one job and its tasks, or (0) of all.
func (h *hub) eventsOf(number uint64, most int) []queue.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	want := queue.JobRef(number).String()
	out := []queue.Event{}
	for _, e := range slices.Backward(h.events) {
		if number != 0 && e.Job != want && !strings.HasPrefix(e.Job, want+".") {
			continue
		}
		if out = append(out, e); len(out) == most {
			break
		}
	}
	return out
}

func (h *hub) history(machine string) []json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]json.RawMessage{}, h.points[machine]...)
}
