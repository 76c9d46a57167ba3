package follow

import (
	"fmt"
	"time"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// count is how far several runs have come: the tasks of groups, and jobs that were submitted together.
type count struct {
	title  string // "job 1842", "5 jobs"
	total  int
	states map[queue.Ref]job.State // of those that have a record: the others wait for their turn
	of     map[job.State]int
	first  time.Time // the first start, as far as known
}

// take notes how one run stands; it says whether that is news.
func (c *count) take(ref queue.Ref, rec *job.Record) bool {
	old, known := c.states[ref]
	if rec == nil || known && old == rec.State {
		return false
	}
	if c.states == nil {
		c.states, c.of = map[queue.Ref]job.State{}, map[job.State]int{}
	}
	if known {
		c.of[old]--
	}
	c.states[ref] = rec.State
	c.of[rec.State]++
	if t := rec.StartedAt; t != nil && (c.first.IsZero() || t.Before(c.first)) {
		c.first = *t
	}
	return true
}

// ended counts those that are over, however they ended; failed those that ended as nobody wished.
func (c *count) ended() (ended, failed int) {
	for state, n := range c.of {
		if state.Final() {
			ended += n
		}
		if fails(state) {
			failed += n
		}
	}
	return ended, failed
}

// fails tells an end that nobody wished from a success and from a cancellation.
func fails(s job.State) bool { return s.Final() && s != job.Succeeded && s != job.Cancelled }

// figures says "54/150 done, 2 failed, 1 cancelled, 8 running".
func (c *count) figures() string {
	ended, failed := c.ended()
	text := fmt.Sprintf("%d/%d done", ended, c.total)
	for _, part := range []struct {
		n    int
		what string
	}{{failed, "failed"}, {c.of[job.Cancelled], "cancelled"}, {c.of[job.Running], "running"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}

// bar is the line on a terminal.
func (c *count) bar(now time.Time) string {
	ended, _ := c.ended()
	share := float64(ended) / float64(max(c.total, 1))
	text := fmt.Sprintf("%s  %s %s", c.title, screen.Bar(share, barWidth), c.figures())
	if left := remaining(ended, c.total, now.Sub(c.first)); left > 0 && !c.first.IsZero() {
		text += ", about " + roughly(left) + " left"
	}
	return text
}

// enough is how many must have ended before a guess is worth reading.
const enough = 3

// remaining guesses how long the rest takes if it goes on as it went since the first start; 0: no guess.
func remaining(ended, total int, took time.Duration) time.Duration {
	if ended < enough || ended >= total || took <= 0 {
		return 0
	}
	return time.Duration(float64(took) / float64(ended) * float64(total-ended))
}

// roughly says a guess without feigned exactness: "20 s", "3 min", "5 h".
func roughly(d time.Duration) string {
	round := func(unit time.Duration) int { return int((d + unit/2) / unit) }
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", max(round(10*time.Second)*10, 10))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", round(time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", round(time.Hour))
	}
	return fmt.Sprintf("%d days", round(24*time.Hour))
}
