package shim

import (
	"testing"
	"time"
)

const (
	sec = time.Second
	t0  = 1000 * time.Second // when the run of these tests started
)

// drive runs a plan by its own alarm clock: it wakes only when the plan said so, and at the given events.
func drive(p *plan, until time.Duration, events map[time.Duration]func(now time.Duration)) map[time.Duration]string {
	names := map[step]string{checkpoint: "checkpoint", ask: "ask", kill: "kill", abandon: "abandon"}
	got := map[time.Duration]string{}
	for now := t0; now <= t0+until; {
		if event, ok := events[now-t0]; ok {
			delete(events, now-t0)
			event(now)
		}
		for s := p.next(now); s != wait; s = p.next(now) {
			if s != kill || now == p.firstKill {
				got[now-t0] += names[s]
			}
			if s == abandon {
				return got
			}
		}
		next := t0 + until + 1
		if due := p.due(); due > 0 {
			next = max(due, now+1)
		}
		for at := range events {
			if at+t0 > now {
				next = min(next, at+t0)
			}
		}
		now = next
	}
	return got
}

func TestPlan(t *testing.T) {
	t.Parallel()
	type events = map[time.Duration]func(*plan, time.Duration)
	stop := func(cause string, grace time.Duration) func(*plan, time.Duration) {
		return func(p *plan, now time.Duration) { p.stop(now, cause, "why", grace) }
	}
	extend := func(to time.Duration) func(*plan, time.Duration) {
		return func(p *plan, _ time.Duration) { p.extend(t0 + to) }
	}
	over := func(p *plan, now time.Duration) { p.commandEnded(now) }
	for _, c := range []struct {
		name   string
		order  Order
		events events
		want   map[time.Duration]string
		cause  string
	}{
		{"left alone", Order{Grace: 30 * sec}, nil, nil, ""},
		{"time limit", Order{Grace: 30 * sec, TimeLimit: 60 * sec}, nil,
			map[time.Duration]string{60 * sec: "ask", 90 * sec: "kill", 120 * sec: "abandon"}, "timeout"},
		{"time limit with checkpoint", Order{Grace: 30 * sec, TimeLimit: 60 * sec, CheckpointSignal: 10, CheckpointBefore: 20 * sec}, nil,
			map[time.Duration]string{40 * sec: "checkpoint", 60 * sec: "ask", 90 * sec: "kill", 120 * sec: "abandon"}, "timeout"},
		{"checkpoint longer than the limit", Order{Grace: sec, TimeLimit: 10 * sec, CheckpointSignal: 10, CheckpointBefore: 60 * sec}, nil,
			map[time.Duration]string{0: "checkpoint", 10 * sec: "ask", 11 * sec: "kill", 41 * sec: "abandon"}, "timeout"},
		{"cancelled", Order{Grace: 30 * sec}, events{5 * sec: stop("cancelled", 10*sec)},
			map[time.Duration]string{5 * sec: "ask", 15 * sec: "kill", 45 * sec: "abandon"}, "cancelled"},
		{"cancelled without grace", Order{Grace: 30 * sec}, events{5 * sec: stop("cancelled", 0)},
			map[time.Duration]string{5 * sec: "kill", 35 * sec: "abandon"}, "cancelled"},
		{"hastened", Order{Grace: 30 * sec}, events{5 * sec: stop("drained", 30*sec), 8 * sec: stop("cancelled", 0)},
			map[time.Duration]string{5 * sec: "ask", 8 * sec: "kill", 38 * sec: "abandon"}, "drained"},
		{"a later stop cannot delay", Order{Grace: 30 * sec}, events{5 * sec: stop("cancelled", 2*sec), 6 * sec: stop("drained", 60*sec)},
			map[time.Duration]string{5 * sec: "ask", 7 * sec: "kill", 37 * sec: "abandon"}, "cancelled"},
		{"drained with checkpoint", Order{Grace: 30 * sec, CheckpointSignal: 10, CheckpointBefore: 20 * sec}, events{5 * sec: stop("drained", 10*sec)},
			map[time.Duration]string{5 * sec: "checkpoint", 25 * sec: "ask", 35 * sec: "kill", 65 * sec: "abandon"}, "drained"},
		{"cancelled needs no checkpoint", Order{Grace: 30 * sec, CheckpointSignal: 10, CheckpointBefore: 20 * sec}, events{5 * sec: stop("cancelled", 10*sec)},
			map[time.Duration]string{5 * sec: "ask", 15 * sec: "kill", 45 * sec: "abandon"}, "cancelled"},
		{"session over", Order{Grace: 30 * sec, SessionGrace: 5 * sec, Deadline: t0 + 50*sec}, nil,
			map[time.Duration]string{50 * sec: "ask", 55 * sec: "kill", 85 * sec: "abandon"}, "session_lost"},
		{"session renewed, then over", Order{Grace: 30 * sec, SessionGrace: 5 * sec, Deadline: t0 + 50*sec},
			events{40 * sec: extend(90 * sec), 45 * sec: extend(60 * sec)},
			map[time.Duration]string{90 * sec: "ask", 95 * sec: "kill", 125 * sec: "abandon"}, "session_lost"},
		{"limit before session", Order{Grace: 10 * sec, SessionGrace: 5 * sec, TimeLimit: 40 * sec, Deadline: t0 + 50*sec}, nil,
			map[time.Duration]string{40 * sec: "ask", 50 * sec: "kill", 80 * sec: "abandon"}, "timeout"},
		{"the command ends", Order{Grace: 30 * sec, TimeLimit: 60 * sec}, events{10 * sec: over},
			map[time.Duration]string{10*sec + linger: "ask", 10*sec + linger + cleanup: "kill", 10*sec + linger + cleanup + giveUp: "abandon"}, ""},
		{"the command ends while it is stopped", Order{Grace: 30 * sec}, events{10 * sec: stop("cancelled", 30*sec), 11 * sec: over},
			map[time.Duration]string{10 * sec: "ask", 40 * sec: "kill", 70 * sec: "abandon"}, "cancelled"},
		{"the command ends after its checkpoint", Order{Grace: 30 * sec, CheckpointSignal: 10, CheckpointBefore: 60 * sec},
			events{10 * sec: stop("preempted", 30*sec), 11 * sec: over},
			map[time.Duration]string{10 * sec: "checkpoint", 11*sec + linger: "ask", 41*sec + linger: "kill", 71*sec + linger: "abandon"}, "preempted"},
		{"stopped after the command ended", Order{Grace: 30 * sec}, events{10 * sec: over, 10*sec + linger/2: stop("cancelled", 0)},
			map[time.Duration]string{10*sec + linger/2: "kill", 10*sec + linger/2 + giveUp: "abandon"}, ""},
		{"session over during a patient stop", Order{Grace: 60 * sec, SessionGrace: 5 * sec, Deadline: t0 + 20*sec},
			events{10 * sec: stop("cancelled", 60*sec)},
			map[time.Duration]string{10 * sec: "ask", 25 * sec: "kill", 55 * sec: "abandon"}, "cancelled"},
		{"session over before the checkpoint is through", Order{
			Grace: 60 * sec, SessionGrace: 5 * sec, Deadline: t0 + 20*sec, CheckpointSignal: 10, CheckpointBefore: 30 * sec,
		}, events{10 * sec: stop("drained", 60*sec)},
			map[time.Duration]string{10 * sec: "checkpoint", 20 * sec: "ask", 25 * sec: "kill", 55 * sec: "abandon"}, "drained"},
		{"session over with what the command left behind", Order{Grace: 30 * sec, SessionGrace: sec / 10, Deadline: t0 + 11*sec},
			events{10 * sec: over},
			map[time.Duration]string{10*sec + linger: "ask", 11*sec + sec/10: "kill", 41*sec + sec/10: "abandon"}, ""},
		{"session over at the time limit", Order{Grace: 60 * sec, SessionGrace: 5 * sec, TimeLimit: 20 * sec, Deadline: t0 + 20*sec}, nil,
			map[time.Duration]string{20 * sec: "ask", 25 * sec: "kill", 55 * sec: "abandon"}, "timeout"},
		{"no session asked for", Order{Grace: sec}, events{10 * sec: extend(20 * sec)}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlan(c.order, t0)
			bound := map[time.Duration]func(time.Duration){}
			for at, e := range c.events {
				bound[at] = func(now time.Duration) { e(p, now) }
			}
			got := drive(p, 200*sec, bound)
			for at, s := range c.want {
				if got[at] != s {
					t.Errorf("at %v: %q, want %q", at, got[at], s)
				}
				delete(got, at)
			}
			if len(got) > 0 {
				t.Errorf("also did %v", got)
			}
			if p.cause != c.cause {
				t.Errorf("cause %q, want %q", p.cause, c.cause)
			}
		})
	}
}

func TestPlanSetLimit(t *testing.T) {
	t.Parallel()
	p := newPlan(Order{TimeLimit: 10 * sec, Grace: sec}, t0)
	p.setLimit(20 * sec)
	if p.next(t0+15*sec) != wait {
		t.Error("the old limit still holds")
	}
	p.setLimit(0)
	if p.due() != 0 || p.next(t0+1000*sec) != wait {
		t.Error("a lifted limit still holds")
	}
	p.setLimit(30 * sec)
	if p.next(t0+1000*sec) != ask || p.why != "the time limit of 30s is over" {
		t.Errorf("a new limit in the past does not hold (%q)", p.why)
	}
}
