package submit

import (
	"fmt"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
)

// sendingShown is how long the sending of several jobs takes before a terminal says how far it is.
const sendingShown = time.Second

// sending is the line that says how many of several jobs the queue has taken.
type sending struct {
	line  *screen.Line
	now   func() time.Time
	since time.Time
	all   int
	live  bool
}

func newSending(g *cli.Globals, all int) *sending {
	term, now := g.Console(), g.Env().Now
	return &sending{line: screen.NewLine(g.Env().Stderr, term), now: now, since: now(), all: all, live: term.TTY && !term.Dumb && !g.Quiet && all > 1}
}

// sent shows that n are there. In a pipe the numbers on stdout say it.
func (s *sending) sent(n int) {
	if s.live && s.now().Sub(s.since) >= sendingShown {
		s.line.Show(fmt.Sprintf("submitting  %s %d/%d jobs", screen.Bar(float64(n)/float64(s.all), 24), n, s.all))
	}
}

// over writes what is said about a job above the line.
func (s *sending) over(write func() error) error {
	return s.line.Over(func() (bool, error) { return true, write() })
}
