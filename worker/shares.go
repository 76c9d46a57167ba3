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

// Held is what the runs of one machine hold for each project.
type Held struct {
	GPUs  map[string]int     // now
	Hours map[string]float64 // GPU hours those runs have had so far; they are counted for good when the runs end
}

// SharesOf is what each project has had: what is counted of ended runs, older ones less, what the runs of now have had,
// and an hour ahead for every GPU they hold, so that many that start at once do not all look like nothing.
func SharesOf(used map[string]float64, machines ...Held) Shares {
	s := Shares{}
	maps.Copy(s, used)
	for _, m := range machines {
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
	mu   sync.Mutex
	used map[string]float64 // decayed GPU hours, from the counters
	held map[string]Held    // by machine, from presence
}

// follow keeps the books fresh until ctx ends.
func (b *shareBooks) follow(ctx context.Context, w *Worker) {
	var g sync.WaitGroup
	defer g.Wait()
	g.Go(func() { b.followMachines(ctx, w) })
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

func (b *shareBooks) followMachines(ctx context.Context, w *Worker) {
	for ctx.Err() == nil {
		err := w.cfg.Queue.WatchMachines(ctx, func(m queue.Machine) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.held == nil {
				b.held = map[string]Held{}
			}
			b.held[m.Name] = Held{m.Projects, m.Hours}
		}, func(key string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			maps.DeleteFunc(b.held, func(name string, _ Held) bool { return queue.MachineKey(name) == key })
		})
		if err != nil && ctx.Err() == nil {
			w.log.Debug("machines_not_watched", "err", err)
			pause(ctx, time.Second)
		}
	}
}

// now is what each project has had. This machine's own runs are counted as they are, the others' as announced.
func (b *shareBooks) now(w *Worker) Shares {
	b.mu.Lock()
	defer b.mu.Unlock()
	machines := []Held{w.holds()}
	for machine, held := range b.held {
		if machine != w.cfg.Machine {
			machines = append(machines, held)
		}
	}
	return SharesOf(b.used, machines...)
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
func (w *Worker) holds() Held {
	h, now := Held{GPUs: map[string]int{}, Hours: map[string]float64{}}, w.cfg.Now()
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
