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
	hidden bool                // the process list is missing or cannot be complete
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
	use := foreignUse{leftAt: c.foreign.leftAt, hidden: !r.ProcessesKnown}
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
	case len(use.procs) > 0 || use.hidden:
		use.util = r.UtilizationPercent
	default:
		use.util = new(float64)
	}
	return use
}

// admits says whether the foreign use of a card lets the wish pass. Free memory is looked at elsewhere.
func (p *Pool) admits(c *card, w *wish) verdict {
	if p.opts.Foreign == ForeignIgnore {
		return verdict{}
	}
	use := &c.foreign
	justLeft := w.now.Before(c.leftAt.Add(p.opts.Settle))
	unseenMB := c.leftMB
	if p.opts.Foreign == ForeignBlock && (len(use.procs) > 0 || (unseenMB > hiddenSlackMB && !c.occupied())) {
		return verdict{why: whyForeignPresent, procs: use.procs, a: unseenMB}
	}
	trailing := justLeft && len(use.procs) == 0 // the gauge still shows the run that has left
	if use.util != nil && *use.util > p.opts.MaxUtil && !trailing {
		return verdict{why: whyForeignLoad, x: *use.util, y: p.opts.MaxUtil, procs: use.procs, a: unseenMB}
	}
	if w.needMB == 0 && c.totalMB > 0 {
		taken := use.memMB
		if unseenMB > hiddenSlackMB {
			taken += unseenMB
		}
		if percent := 100 * float64(taken) / float64(c.totalMB); percent > p.opts.MaxUtil {
			return verdict{why: whyForeignMemory, x: percent, y: p.opts.MaxUtil, procs: use.procs, a: unseenMB}
		}
	}
	if since := w.now.Sub(use.leftAt); !use.leftAt.IsZero() && since < p.opts.Settle {
		return verdict{why: whyForeignLeft, x: max(0, seconds(since)), y: seconds(p.opts.Settle)}
	}
	return verdict{}
}

// occupied reports whether runs, of this worker or another, are on the card.
func (c *card) occupied() bool { return len(c.holds)+len(c.peers) > 0 }
