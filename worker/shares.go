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

// shareBooks is what this worker knows of the projects' use of the fleet.
type shareBooks struct {
	mu   sync.Mutex
	used map[string]float64        // decayed GPU hours, from the counters
	held map[string]map[string]int // GPUs by machine and project, from presence
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
				b.held = map[string]map[string]int{}
			}
			b.held[m.Name] = m.Projects
		}, func(key string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			maps.DeleteFunc(b.held, func(name string, _ map[string]int) bool { return queue.MachineKey(name) == key })
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
	s := Shares{}
	maps.Copy(s, b.used)
	for machine, projects := range b.held {
		if machine == w.cfg.Machine {
			continue
		}
		for p, n := range projects {
			s[p] += float64(n)
		}
	}
	for p, n := range w.gpusByProject() {
		s[p] += float64(n)
	}
	return s
}

// gpusByProject counts the GPUs each project holds on this machine.
func (w *Worker) gpusByProject() map[string]int {
	held := map[string]int{}
	w.runs.each(func(a *attempt) {
		if n := len(a.devices()); n > 0 {
			held[a.project] += n
		}
	})
	return held
}

// countUsage adds what an attempt has used to its project's counter. It can be lost with a crash just now: the order
// among projects is a few GPU seconds less exact then, nothing else.
func (w *Worker) countUsage(a *attempt, seconds float64) {
	gpus := float64(len(a.devices()))
	if gpus == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.background, 3*time.Second)
	defer cancel()
	if err := w.cfg.Queue.AddUsage(ctx, a.project, w.cfg.Now(), gpus*seconds, a.id); err != nil {
		a.log.Warn("usage_not_counted", "err", err)
	}
}
