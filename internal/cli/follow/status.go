package follow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

const (
	redraw  = time.Second            // the run time goes on even when nothing is heard
	calm    = 100 * time.Millisecond // a swarm of changes is one picture
	catchUp = 2 * time.Second        // how long the last changes may come after the results
	named   = 10                     // failures that are named in a pipe; the others are counted
)

// status is the line under what is shown while jobs are waited for: on a terminal one line that is drawn again as things
// change, elsewhere, for several runs, a plain line at each tenth and for each of the first failures.
//
//	records, presence --take--> what is known --at most each 100 ms--> line
//	all results there --settle--> the last records seen (or 2 s) --> line taken away
type status struct {
	q    *queue.Queue
	now  func() time.Time
	refs []queue.Ref
	line *screen.Line
	live bool
	wake chan struct{}

	mu      sync.Mutex
	groups  map[queue.Ref]bool // whose own record is no run
	many    *count             // nil: a single run
	one     one
	tenths  int                // that have been said
	failed  int                // failures that have been said
	over    map[queue.Ref]bool // of refs: known to have ended
	settled chan struct{}      // closed when all are
}

// newStatus is nil where nothing is to be shown: with -q, or of a single run where nobody looks.
func newStatus(ctx context.Context, g *cli.Globals, q *queue.Queue, refs []queue.Ref, line *screen.Line) *status {
	if g.Quiet {
		return nil
	}
	term := g.Console()
	s := &status{q: q, now: g.Env().Now, refs: refs, line: line, live: term.TTY && !term.Dumb, wake: make(chan struct{}, 1),
		groups: map[queue.Ref]bool{}, over: map[queue.Ref]bool{}, settled: make(chan struct{})}
	total := 0
	for _, ref := range refs {
		j, err := q.Job(ctx, ref.Number)
		switch {
		case err != nil:
			return nil // what waits for the results says so, or does better
		case j.IsGroup() && !ref.Task:
			total += j.Tasks.Count
			s.groups[ref] = true
		default:
			total++
			s.one = one{ref: ref, queued: j.SubmittedAt}
		}
	}
	switch {
	case len(refs) > 1:
		s.many = &count{title: screen.Plural(len(refs), "job"), total: total}
	case len(s.groups) > 0:
		s.many = &count{title: "job " + refs[0].String(), total: total}
	case !s.live:
		return nil
	}
	return s
}

// run shows the line until ctx ends.
func (s *status) run(outer context.Context) {
	var watching sync.WaitGroup
	defer s.line.Close()
	defer watching.Wait()
	ctx, stop := context.WithCancel(outer)
	defer stop()
	for _, ref := range s.refs {
		watching.Go(func() { s.q.WatchRecords(ctx, ref, s.take) })
	}
	if !s.live { // each line is said when it happens
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	watched, leave := "", func() {}
	defer func() { leave() }()
	for {
		if machine := s.draw(); machine != watched {
			leave()
			near, cancel := context.WithCancel(ctx)
			watched, leave = machine, cancel
			watching.Go(func() { s.watchMachine(near, machine) })
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
		case <-time.After(calm):
		}
	}
}

// draw shows what is known, and says on which machine the single run is.
func (s *status) draw() (machine string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.many != nil {
		s.line.Show(s.many.bar(s.now()))
		return ""
	}
	s.line.Show(s.one.line(s.now()))
	if s.one.rec != nil && s.one.rec.State == job.Running {
		machine = s.one.rec.Machine
	}
	return machine
}

// watchMachine keeps what the machine of the run announces. Without it the line says less.
func (s *status) watchMachine(ctx context.Context, name string) {
	if name == "" {
		return
	}
	_ = s.q.WatchMachine(ctx, name, func(m queue.Machine) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.one.machine = &m
		s.poke()
	})
}

func (s *status) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// take notes a record.
func (s *status) take(ref queue.Ref, rec *job.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.many == nil:
		s.one.rec = rec
	case !s.groups[ref] && s.many.take(ref, rec) && !s.live:
		s.say(ref, rec)
	}
	s.poke()
	if rec == nil || !rec.State.Final() || s.over[ref] {
		return
	}
	for _, waited := range s.refs {
		if waited == ref {
			s.over[ref] = true
		}
	}
	if s.over[ref] && len(s.over) == len(s.refs) {
		close(s.settled)
	}
}

// say writes the plain line that a change is worth. The end itself is told with the results.
func (s *status) say(ref queue.Ref, rec *job.Record) {
	if fails(rec.State) {
		s.failed++
		text := fmt.Sprintf("berth: job %s %s", ref, rec.State)
		if rec.ReasonText != "" {
			text += ": " + rec.ReasonText
		}
		switch {
		case s.failed <= named:
			s.line.Show(text)
		case s.failed == named+1:
			s.line.Show("berth: further failures are only counted here; berth results names them")
		}
	}
	ended, _ := s.many.ended()
	if tenths := ended * 10 / max(s.many.total, 1); tenths > s.tenths && tenths < 10 {
		s.tenths = tenths
		s.line.Show("berth: " + s.many.title + ": " + s.many.figures())
	}
}

// settle waits, when the results are there, until the line knows as much.
func (s *status) settle(ctx context.Context) {
	late := time.NewTimer(catchUp)
	defer late.Stop()
	select {
	case <-s.settled:
	case <-ctx.Done():
	case <-late.C:
	}
}
