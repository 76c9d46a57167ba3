package worker

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/berthq/berth/queue"
)

const (
	// sharesEvery is how often a worker asks what the projects have used.
	sharesEvery = 30 * time.Second
	// halfLife is after how long what a project has used counts half.
	halfLife = 7 * 24 * time.Hour
)

// SharesOf is what each project has had: what is counted of ended runs, older ones less, what the runs of now have had,
// and an hour ahead for every GPU they hold, so that many that start at once do not all look like nothing.
func SharesOf(used map[string]float64, held ...queue.Holdings) Shares {
	s := Shares{}
	maps.Copy(s, used)
	for _, m := range held {
		for project, n := range m.GPUs {
			s[project] += float64(n)
		}
		for project, hours := range m.Hours {
			s[project] += hours
		}
	}
	return s
}

// shareBooks is what this worker knows of the projects' use of the fleet.
type shareBooks struct {
	mu    sync.Mutex
	used  map[string]float64 // decayed GPU hours, from the counters
	fleet queue.Holdings     // of all machines, as last told
	own   queue.Holdings     // this machine's part of that, as last announced
}

// follow keeps the books fresh until ctx ends.
func (b *shareBooks) follow(ctx context.Context, w *Worker) {
	var g sync.WaitGroup
	defer g.Wait()
	g.Go(func() { b.followFleet(ctx, w) })
	tick := time.NewTicker(sharesEvery)
	defer tick.Stop()
	for {
		used, err := w.cfg.Queue.Usage(ctx, halfLife, w.cfg.Now())
		if err == nil {
			b.mu.Lock()
			b.used = used
			b.mu.Unlock()
		} else if ctx.Err() == nil {
			w.log.Debug("usage_not_read", "err", err) // the order is that of the last time
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *shareBooks) followFleet(ctx context.Context, w *Worker) {
	for ctx.Err() == nil {
		err := w.cfg.Queue.FollowHoldings(ctx, func(h queue.Holdings) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.fleet = h
		})
		if err != nil && ctx.Err() == nil {
			w.log.Debug("holdings_not_followed", "err", err)
			pause(ctx, time.Second)
		}
	}
}

// announced notes what the fleet is being told of this machine.
func (b *shareBooks) announced(own queue.Holdings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.own = own
}

// now is what each project has had. This machine's own runs are counted as they are, the others' as announced.
func (b *shareBooks) now(w *Worker) Shares {
	b.mu.Lock()
	defer b.mu.Unlock()
	return SharesOf(b.used, w.holds(), others(b.fleet, b.own))
}

// others is what a fleet holds but for one of its machines. What that has announced and the sum does not have yet is
// never taken off the others.
func others(fleet, own queue.Holdings) queue.Holdings {
	rest := queue.Holdings{GPUs: map[string]int{}, Hours: map[string]float64{}}
	for project, n := range fleet.GPUs {
		rest.GPUs[project] = max(0, n-own.GPUs[project])
	}
	for project, hours := range fleet.Hours {
		rest.Hours[project] = max(0, hours-own.Hours[project])
	}
	return rest
}

// add counts a run that has just ended here, which the counters will say at the next look.
func (b *shareBooks) add(project string, hours float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := maps.Clone(b.used) // whoever has it reads on
	if used == nil {
		used = map[string]float64{}
	}
	used[project] += hours
	b.used = used
}

// holds is what this machine's runs hold for each project.
func (w *Worker) holds() queue.Holdings {
	h, now := queue.Holdings{GPUs: map[string]int{}, Hours: map[string]float64{}}, w.cfg.Now()
	w.runs.each(func(a *attempt) {
		if n := len(a.devices()); n > 0 {
			h.GPUs[a.project] += n
			h.Hours[a.project] += float64(n) * max(0, now.Sub(a.startedAt()).Hours())
		}
	})
	return h
}

// countUsage adds what an attempt has used to its project's counter. It can be lost with a crash just now: the order
// among projects is a few GPU seconds less exact then, nothing else.
func (w *Worker) countUsage(a *attempt, seconds float64) {
	gpus := float64(len(a.devices()))
	if gpus == 0 {
		return
	}
	w.shares.add(a.project, gpus*seconds/3600)
	ctx, cancel := context.WithTimeout(w.background, 3*time.Second)
	defer cancel()
	if err := w.cfg.Queue.AddUsage(ctx, a.project, w.cfg.Now(), gpus*seconds, a.id); err != nil {
		a.log.Warn("usage_not_counted", "err", err)
	}
}
