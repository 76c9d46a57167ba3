package web

import (
	"fmt"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// A machine writes when its runs began and ended by its own clock. Where that is off by more than its word may have been
// on the way, what it wrote is shown as our clock would have said it, so that pages have one time: the server's.
const clockOff = 30 * time.Second

// hear notes how far a machine's clock is ahead of ours, by when it says that it speaks.
func (x *index) hear(machine string, at, now time.Time) time.Duration {
	ahead := at.Sub(now)
	x.mu.Lock()
	defer x.mu.Unlock()
	if at.IsZero() || ahead.Abs() < clockOff {
		delete(x.ahead, machine)
		return 0
	}
	x.ahead[machine] = ahead
	return ahead
}

func (x *index) aheadOf(machine string) time.Duration {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.ahead[machine]
}

// byOurs is a time of a clock that is ahead as ours would have said it.
func byOurs(t *time.Time, ahead time.Duration) *time.Time {
	if t == nil || ahead == 0 {
		return t
	}
	ours := t.Add(-ahead)
	return &ours
}

// byOurClock puts right what the job's machines wrote.
func (x *index) byOurClock(v queue.JobView) queue.JobView {
	ahead := x.aheadOf(v.Machine)
	v.StartedAt, v.EndedAt = byOurs(v.StartedAt, ahead), byOurs(v.EndedAt, ahead)
	return v
}

func (x *index) attemptsByOurClock(attempts []job.Attempt) []job.Attempt {
	out := append([]job.Attempt(nil), attempts...)
	for i, a := range out {
		ahead := x.aheadOf(a.Machine)
		out[i].StartedAt, out[i].EndedAt = a.StartedAt.Add(-ahead), byOurs(a.EndedAt, ahead)
	}
	return out
}

// warnOfClock is what the page of machines says.
func warnOfClock(ahead time.Duration) string {
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	return fmt.Sprintf("its clock is %s %s the dashboard's: pages show its times by the dashboard's clock; set it right (timedatectl)",
		ahead.Abs().Round(time.Second), word)
}
