package shim

import "time"

const (
	linger  = 200 * time.Millisecond // for what the command left behind to end by itself
	cleanup = 2 * time.Second        // at most, from the signal to the kill of what it left behind
	rekill  = 100 * time.Millisecond // between two kills while something is still there
	giveUp  = 30 * time.Second       // after the first kill: what is left now sits in the kernel
)

// step is what is to be done now.
type step int

const (
	wait       step = iota // nothing
	checkpoint             // the checkpoint signal, to those who listen
	ask                    // the stop signal, to all
	kill                   // no more asking
	abandon                // name the survivors and go
)

// plan decides what happens to a run and when. It is pure: times go in, steps come out.
type plan struct {
	started   time.Duration
	limit     time.Duration // absolute; 0 = none
	deadline  time.Duration // likewise
	grace     time.Duration
	endGrace  time.Duration // when the session is over: another machine may start the job soon
	lead      time.Duration // from the checkpoint signal to the stop signal; 0 = no checkpoint asked for
	limitText string
	signalled bool // the checkpoint signal has been given

	cause, why string
	ending     bool
	late       bool // the session's deadline has passed while it was ending
	asked      bool
	askAt      time.Duration
	killAt     time.Duration
	firstKill  time.Duration
}

func newPlan(o Order, now time.Duration) *plan {
	p := &plan{started: now, deadline: o.Deadline, grace: o.Grace, endGrace: min(o.Grace, o.SessionGrace)}
	if o.CheckpointSignal != 0 {
		p.lead = o.CheckpointBefore
	}
	p.setLimit(o.TimeLimit)
	return p
}

// setLimit changes the time limit, counted from the start.
func (p *plan) setLimit(limit time.Duration) {
	p.limit, p.limitText = 0, ""
	if limit > 0 {
		p.limit, p.limitText = p.started+limit, limit.String()
	}
}

// extend moves the session's deadline; a late message never moves it back.
func (p *plan) extend(deadline time.Duration) {
	if p.deadline > 0 {
		p.deadline = max(p.deadline, deadline)
	}
}

// stop begins the end. The first cause stays; a later stop can only make it faster.
func (p *plan) stop(now time.Duration, cause, why string, grace time.Duration) {
	askAt := now
	if p.lead > 0 && grace > 0 && (cause == "drained" || cause == "preempted") {
		askAt += p.lead
	}
	if !p.ending {
		p.ending, p.cause, p.why = true, cause, why
		p.askAt, p.killAt = askAt, askAt+grace
		if askAt == now {
			p.signalled = true
		}
		return
	}
	p.askAt, p.killAt = min(p.askAt, askAt), min(p.killAt, askAt+grace)
}

// commandEnded is called when the run's own command is over: what it left behind has a moment.
func (p *plan) commandEnded(now time.Duration) {
	p.signalled = true
	if p.ending && p.asked {
		return
	}
	if p.ending {
		p.askAt = min(p.askAt, now+linger)
		p.killAt = min(p.killAt, p.askAt+p.grace)
		return
	}
	p.ending = true
	p.askAt = now + linger
	p.killAt = p.askAt + min(p.grace, cleanup)
}

// next returns what is due, and takes note that it is done.
func (p *plan) next(now time.Duration) step {
	p.expire(now)
	switch {
	case p.firstKill > 0 && now >= p.firstKill+giveUp:
		return abandon
	case p.ending && now >= p.killAt:
		if p.firstKill == 0 {
			p.firstKill = now
		}
		p.killAt, p.asked = now+rekill, true
		return kill
	case p.ending && !p.asked && now >= p.askAt:
		p.asked = true
		return ask
	case !p.signalled && p.checkpointAt() > 0 && now >= p.checkpointAt():
		p.signalled = true
		return checkpoint
	}
	return wait
}

// expire begins the end when the time limit or the session is over, whichever came first. An end that is under way is
// hastened by the end of the session: neither a patient stop nor what the command left behind may outlive the right to run.
func (p *plan) expire(now time.Duration) {
	byLimit := p.limit > 0 && now >= p.limit
	byDeadline := p.deadline > 0 && now >= p.deadline
	switch {
	case p.ending && byDeadline && !p.late:
		p.late = true
		p.stop(now, CauseSessionLost, "", p.endGrace)
	case p.ending:
	case byLimit && (!byDeadline || p.limit <= p.deadline):
		p.stop(now, CauseTimeout, "the time limit of "+p.limitText+" is over", p.grace)
	case byDeadline:
		p.late = true
		p.stop(now, CauseSessionLost, "the worker did not renew its session in time", p.endGrace)
	}
}

// checkpointAt is when the checkpoint signal is due; 0 when it is not foreseeable.
func (p *plan) checkpointAt() time.Duration {
	switch {
	case p.lead == 0:
		return 0
	case p.ending:
		return max(1, p.askAt-p.lead)
	case p.limit > 0:
		return max(1, p.limit-p.lead)
	}
	return 0
}

// due is when next has something to do; 0 when nothing is foreseeable.
func (p *plan) due() time.Duration {
	var due time.Duration
	sooner := func(at time.Duration) {
		if at > 0 && (due == 0 || at < due) {
			due = at
		}
	}
	if !p.signalled {
		sooner(p.checkpointAt())
	}
	if !p.late {
		sooner(p.deadline)
	}
	if !p.ending {
		sooner(p.limit)
		return due
	}
	if !p.asked {
		sooner(p.askAt)
	}
	sooner(p.killAt)
	if p.firstKill > 0 {
		sooner(p.firstKill + giveUp)
	}
	return due
}
