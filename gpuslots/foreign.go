package gpuslots

import (
	"path"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
)

// foreignUse is what processes that are not ours do to a card.
type foreignUse struct {
	procs  []telemetry.Process // those that count: not on the ignore list
	memMB  int64               // of procs, as far as it is known
	util   *float64            // nil: cannot be told from ours
	leftAt time.Time           // when one of them was last seen to have gone
}

// hiddenSlackMB is how much memory may be used without anybody owning up to it: contexts, the driver's own.
const hiddenSlackMB = 1024

func (p *Pool) ignored(proc telemetry.Process) bool {
	name := commandName(proc)
	for _, pattern := range p.opts.ForeignIgnore {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// commandName is the program's name without folder and arguments.
func commandName(proc telemetry.Process) string {
	fields := strings.Fields(proc.Command)
	if len(fields) == 0 {
		return ""
	}
	return path.Base(fields[0])
}

// measureForeign sums up the processes of a reading that are not ours. The load of a card is theirs as far as the
// driver says it by process; a card that no run of ours is on owes all of it to them, if there is anybody.
func (p *Pool) measureForeign(c *card, r telemetry.Reading) foreignUse {
	use := foreignUse{leftAt: c.foreign.leftAt}
	var util float64
	utilKnown := true
	for _, proc := range r.Processes {
		if !proc.Foreign() || p.ignored(proc) {
			continue
		}
		use.procs = append(use.procs, proc)
		if proc.MemoryMB != nil {
			use.memMB += max(0, *proc.MemoryMB)
		}
		if proc.UtilizationPercent == nil {
			utilKnown = false
		} else {
			util += *proc.UtilizationPercent
		}
	}
	ours := len(c.holds)+len(c.peers) > 0
	switch {
	case len(use.procs) > 0 && utilKnown:
		util = min(util, 100)
		use.util = &util
	case ours:
		if len(use.procs) == 0 {
			use.util = new(float64)
		}
	case len(use.procs) > 0 || !r.ProcessesKnown:
		use.util = r.UtilizationPercent
	default:
		use.util = new(float64)
	}
	return use
}

// admits says whether the foreign use of a card lets the wish pass. Free memory is looked at elsewhere.
func (p *Pool) admits(c *card, w *wish, v *verdict) bool {
	if p.opts.Foreign == ForeignIgnore {
		return true
	}
	use := &c.foreign
	who := func(percent float64) verdict {
		return verdict{procs: use.procs, a: c.leftMB, x: percent, y: p.opts.MaxUtil}
	}
	if p.opts.Foreign == ForeignBlock && (len(use.procs) > 0 || (c.leftMB > hiddenSlackMB && !c.occupied())) {
		return v.no(whyForeignPresent, who(0))
	}
	if use.util != nil && *use.util > p.opts.MaxUtil {
		trailing := len(use.procs) == 0 && w.now.Before(c.leftAt.Add(p.opts.Settle)) // the gauge still shows the run that left
		if !trailing {
			return v.no(whyForeignLoad, who(*use.util))
		}
	}
	if w.needMB == 0 && c.totalMB > 0 {
		taken := use.memMB
		if c.leftMB > hiddenSlackMB {
			taken += c.leftMB
		}
		if percent := 100 * float64(taken) / float64(c.totalMB); percent > p.opts.MaxUtil {
			return v.no(whyForeignMemory, who(percent))
		}
	}
	if !use.leftAt.IsZero() && w.now.Before(use.leftAt.Add(p.opts.Settle)) {
		ago := max(0, w.now.Sub(use.leftAt))
		return v.no(whyForeignLeft, verdict{x: ago.Seconds(), y: p.opts.Settle.Seconds()})
	}
	return true
}

// occupied reports whether runs, of this worker or another, are on the card.
func (c *card) occupied() bool { return len(c.holds)+len(c.peers) > 0 }
