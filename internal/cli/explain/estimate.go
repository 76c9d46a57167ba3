package explain

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/queue"
)

// ending is when a GPU's run may end, and by what that is known.
type ending struct {
	at    time.Time
	basis string
}

// estimate is when the GPUs may be there: on the machine that has enough of them soonest, by what its runs say about
// their end, and after those in front. nil: nothing is known that it could rest on.
func estimate(f Facts) *Estimate {
	need := f.Job.Needs.GPUs
	if need == 0 || len(f.Machines) == 0 {
		return nil
	}
	var best *Estimate
	capable := 0
	for _, m := range f.Machines {
		if neverOn(f, m) || m.Draining || f.near() != nil && m.Name != f.near().Machine {
			continue
		}
		if why, _ := f.besideReservations(m); why != "" {
			continue // how long the wide job will run, nobody says
		}
		known := endings(f, m)
		capable += len(m.GPUs)
		if len(known) < need {
			continue
		}
		last := known[need-1]
		if best == nil || last.at.Before(best.StartAt) {
			best = &Estimate{StartAt: last.at, Basis: m.Name + ": " + last.basis}
		}
	}
	if best == nil {
		return nil
	}
	return behind(f, best, capable)
}

// behind moves the start back by those in front, each taken to run as long as is typical.
func behind(f Facts, e *Estimate, gpus int) *Estimate {
	waiting := len(f.Place.InFront)
	if waiting == 0 || gpus == 0 {
		return e
	}
	if f.Typical == 0 {
		e.Basis += fmt.Sprintf("; not counting the %d in front, whose run time nothing is known about", waiting)
		return e
	}
	rounds := waiting * f.Job.Needs.GPUs / gpus
	e.StartAt = e.StartAt.Add(time.Duration(rounds) * f.Typical)
	e.Basis += fmt.Sprintf("; %d in front, %s each (the median of its project's last %d runs)", waiting, screen.Span(f.Typical), f.TypicalN)
	return e
}

func neverOn(f Facts, m queue.Machine) bool {
	_, never := f.never(m)
	return never
}

// endings lists when the GPUs of a machine are free about which something is known, the soonest first.
func endings(f Facts, m queue.Machine) (known []ending) {
	for _, g := range m.GPUs {
		if e, ok := endOf(f, m, g); ok {
			known = append(known, e)
		}
	}
	slices.SortStableFunc(known, func(a, b ending) int { return a.at.Compare(b.at) })
	return known
}

func endOf(f Facts, m queue.Machine, g queue.GPU) (ending, bool) {
	if g.State != "ready" && g.State != "busy" {
		return ending{}, false // when foreign work or a fault ends, nobody knows
	}
	e, seen := ending{f.Now, "its GPUs are free now"}, false
	for _, r := range f.Running {
		if r.Machine != m.Name || !slices.Contains(r.GPUs, g.UUID) {
			continue
		}
		end, ok := r.end(f)
		if !ok {
			return ending{}, false
		}
		if seen = true; !end.at.Before(e.at) {
			e = end
		}
	}
	if !seen && g.Active >= g.Slots && g.Slots > 0 {
		return ending{}, false // held by somebody we do not see, a lease for example
	}
	return e, true
}

// end is when a run may end: by its limit, or as those before it did.
func (r Run) end(f Facts) (ending, bool) {
	ran := f.Now.Sub(r.Since)
	switch {
	case f.Typical > 0 && (r.Limit == 0 || f.Typical < r.Limit) && ran < f.Typical:
		return ending{r.Since.Add(f.Typical), fmt.Sprintf("job %s ends after the usual %s (the median of its project's last %s)",
			r.Job, screen.Span(f.Typical), screen.Plural(f.TypicalN, "run"))}, true
	case r.Limit > 0:
		return ending{latest(r.Since.Add(r.Limit), f.Now), fmt.Sprintf("job %s ends at the latest by its time limit of %s", r.Job, screen.Span(r.Limit))}, true
	}
	return ending{}, false
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner lists what would let the job start earlier, as far as the figures show it.
func sooner(f Facts, e Explanation) []string {
	v := f.Job
	var tips []string
	switch e.Reason {
	case Held:
		return []string{"berth release " + v.Ref.String()}
	case NoWorker:
		return []string{"start a worker: berth join says how"}
	case Quota:
		tips = append(tips, fmt.Sprintf("the end of another run of project %s, or berth project set %s --max-gpus %d", v.Project, v.Project, f.Project.GPUs+v.Needs.GPUs))
	case Priority:
		tips = append(tips, "a higher priority: -P 67 and more goes before normal jobs")
	case NeverFits:
		tips = append(tips, "asking for what a machine has: see the machines above")
	}
	if !startable(e.Reason) || v.Needs.GPUs == 0 {
		return tips
	}
	return append(tips, smaller(f)...)
}

// smaller looks for fewer GPUs or less memory that would fit now.
func smaller(f Facts) (tips []string) {
	v := f.Job
	for _, m := range f.Machines {
		if m.Draining || neverOn(f, m) {
			continue
		}
		free, most := 0, int64(0)
		for _, g := range m.GPUs {
			if g.State != "ready" || g.Active >= g.Slots && g.Slots > 0 || g.MemoryFreeMB == nil {
				continue
			}
			if *g.MemoryFreeMB >= v.Needs.GPUMemoryMB {
				free++
			} else {
				most = max(most, *g.MemoryFreeMB)
			}
		}
		switch {
		case free > 0 && free < v.Needs.GPUs:
			tips = append(tips, "-g "+strconv.Itoa(free)+" would fit on "+m.Name+" now")
		case free == 0 && v.Needs.GPUs == 1 && most >= 1024:
			tips = append(tips, fmt.Sprintf("-m %dGi would fit on %s now", most/1024, m.Name))
		}
	}
	if f.Job.TimeLimit == 0 && f.Reserved.Machine == "" && v.Needs.GPUs > 0 {
		tips = append(tips, "a time limit (-t): jobs that say when they end may fill the gaps before wide ones")
	}
	return tips
}
