package operator

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newTop(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "watch every GPU and what runs, full screen",
		Long: "Show the GPUs of every machine with their load, memory, temperature, power and holder, and under them the jobs that run.\n" +
			"Keys: arrows or j and k scroll, s sorts by another column, / shows only what has a word in it (Esc: all), q leaves.",
		Example: "  berth top\n  berth gpus -w                        # the same figures as a list, also in a pipe",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !g.Screen().TTY || g.Screen().Dumb || !g.Output.ForPeople() {
				return noTop()
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error { return top(ctx, g, q) })
		},
	}
}

func noTop() error {
	return exit.Errorf(exit.Usage, "berth top draws on a terminal, and here is none").Hinted("berth gpus -w")
}

// top owns the terminal until a key, a signal or an error ends it.
func top(ctx context.Context, g *cli.Globals, q *queue.Queue) (err error) {
	first, err := lookAround(ctx, g, q) // what is wrong with the broker is said on the page that stays
	if err != nil {
		return err
	}
	full, err := screen.OpenFull(g.Env().Stdin, g.Out(), g.Env().Getenv)
	if errors.Is(err, screen.ErrNoTerminal) {
		return noTop()
	}
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	defer func() { err = errors.Join(err, full.Leave()) }() // also when what is below panics
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	resized := make(chan os.Signal, 1)
	g.Env().Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	press, ended := make(chan string), make(chan error, 1)
	all.Go(func() { ended <- full.Keys(ctx.Done(), press) })
	looks := make(chan topLook)
	all.Go(func() { keepLooking(ctx, g, q, looks) })

	page := topPage{look: first, color: !g.NoColor}
	for {
		size := full.Size()
		size.Color = size.Color && page.color
		if err := full.Draw(page.lines(size)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the interruption is how one leaves
		case err := <-ended:
			return err
		case <-resized:
		case page.look = <-looks:
		case key := <-press:
			if page.press(key) {
				return nil
			}
		}
	}
}

// topLook is one look at the fleet, by the same readings as berth gpus and berth status.
type topLook struct {
	machines []standing
	counts   queue.Counts
	running  []queue.JobView
	demo     bool
	at       time.Time
	err      error // of this look; what is shown is the one before
}

// topRunning is how many of the running jobs are listed.
const topRunning = 200

func lookAround(ctx context.Context, g *cli.Globals, q *queue.Queue) (topLook, error) {
	l := topLook{demo: q.Demo(), at: g.Env().Now()}
	machines, err := q.Machines(ctx)
	if err != nil {
		return l, cli.Broker(err)
	}
	l.machines = rank(machines, false)
	if l.counts, err = q.Counts(ctx); err != nil {
		return l, cli.Broker(err)
	}
	if l.running, _, err = q.List(ctx, queue.Filter{States: []job.State{job.Running}}, queue.Page{Limit: topRunning}); err != nil {
		return l, cli.Broker(err)
	}
	if err = q.AddProgress(ctx, l.running); err != nil {
		return l, cli.Broker(err)
	}
	return l, nil
}

// keepLooking looks once a second, as -w does, and never begins a look before the last has ended.
func keepLooking(ctx context.Context, g *cli.Globals, q *queue.Queue, looks chan<- topLook) {
	const each = time.Second
	tick := time.NewTicker(each)
	defer tick.Stop()
	last := topLook{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l, err := lookAround(ctx, g, q)
		if err != nil {
			last.err = err
			l = last
		}
		last = l
		select {
		case <-ctx.Done():
			return
		case looks <- l:
		}
	}
}
