package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// answer is what `berth check` says.
type answer struct {
	Version int    `json:"version"`
	OK      bool   `json:"ok"`
	Never   bool   `json:"never,omitempty"` // waiting would not change it
	Machine string `json:"machine,omitempty"`
	Text    string `json:"text"`
}

func newCheck(g *cli.Globals) *cobra.Command {
	var gpus int
	var memory memoryFlag
	var machine string
	var wait job.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "are so many GPUs with so much memory free? yes or no, and why",
		Long: "Ask the workers whether one machine has so many GPUs free for a job of its own, on a fresh look.\n" +
			"Exit code: 0 yes, 1 no, 3 the broker cannot be asked. Nothing is taken: see berth lease for that.",
		Example: "  berth check --gpus 2 --gpu-memory 40Gi\n  berth check -g 1 --machine titan --wait 300s && ./reconstruct.sh",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if gpus < 1 {
				return exit.Errorf(exit.Usage, "--gpus %d: want 1 or more", gpus)
			}
			mb, exact := memory.m.MB()
			if !memory.m.IsZero() && !exact {
				return exit.Errorf(exit.Usage, "--gpu-memory %s: want a size such as 20Gi", memory.m)
			}
			req := job.Requirements{GPUs: gpus, GPUMemoryMB: mb}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				c := checker{q: q, me: cli.Me(g.Env()), req: req, machine: machine}
				a, err := c.await(ctx, wait.Std())
				if err != nil {
					return cli.Broker(err)
				}
				return say(g, a)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVarP(&gpus, "gpus", "g", 1, "how many, on one machine")
	f.VarP(&memory, "gpu-memory", "m", "memory free on each, 20Gi")
	f.StringVar(&machine, "machine", "", "this `MACHINE` and no other")
	f.Var(textFlag{&wait}, "wait", "for a yes, up to this long")
	return cmd
}

func say(g *cli.Globals, a answer) error {
	var err error
	if g.Output.ForPeople() {
		_, err = fmt.Fprintln(g.Out(), a.Text)
	} else {
		err = cli.Print(g, answerView, []answer{a})
	}
	if err == nil && !a.OK {
		return exit.Silent(exit.Failed)
	}
	return err
}

var answerView = table.View[answer]{
	Name: func(a answer) string { return a.Machine },
	Columns: []table.Column[answer]{
		{Field: "ok", Cell: func(a answer) table.Cell { return table.Text(fmt.Sprint(a.OK)) }},
		{Field: "machine", Cell: func(a answer) table.Cell { return table.Text(a.Machine) }},
		{Field: "text", Cell: func(a answer) table.Cell { return table.Text(a.Text) }},
	},
}

// checker asks the workers.
type checker struct {
	q       *queue.Queue
	me      queue.Me
	req     job.Requirements
	machine string // "" any
}

// await asks until there is a yes, or for that long. It asks a machine again when that machine announces a change, and
// then alone: nothing is polled.
func (c checker) await(ctx context.Context, wait time.Duration) (answer, error) {
	last, err := c.now(ctx)
	if err != nil || last.OK || wait <= 0 {
		return last, err
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	news := make(chan queue.Machine, 256)
	watching := make(chan error, 1)
	watch.Go(func() {
		watching <- c.q.WatchMachines(limited, func(m queue.Machine) {
			if c.machine != "" && m.Name != c.machine {
				return
			}
			select {
			case news <- m:
			case <-limited.Done():
			}
		}, func(string) {})
	})
	for {
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return last, ctx.Err()
			}
			last.Text += fmt.Sprintf(" (waited %s)", wait)
			return last, nil
		case err := <-watching:
			if err != nil {
				return last, err
			}
			watching = nil // the time is up, which the next round says
		case m := <-news:
			a, err := c.ask(limited, m.Name)
			if err == nil && a.OK {
				return a, nil
			}
		}
	}
}

// now asks every machine, best first, and gives the first yes; else the no that says most.
func (c checker) now(ctx context.Context) (answer, error) {
	machines, err := c.q.Machines(ctx)
	if err != nil {
		return answer{}, err
	}
	ranked := rank(machines, true)
	if c.machine != "" {
		ranked = slices.DeleteFunc(ranked, func(s standing) bool { return s.Name != c.machine })
	}
	if len(ranked) == 0 {
		return c.nobody(), nil
	}
	answers := make([]answer, len(ranked))
	var asking errgroup.Group
	asking.SetLimit(32)
	for i, s := range ranked {
		asking.Go(func() (err error) {
			answers[i], err = c.ask(ctx, s.Name)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return answer{}, err
	}
	return choose(answers), nil
}

func (c checker) nobody() answer {
	if c.machine != "" {
		return answer{Version: 1, Machine: c.machine, Text: fmt.Sprintf("no: machine %s is not connected; `berth machines` lists those that are", c.machine)}
	}
	return answer{Version: 1, Text: "no: no machine is connected; berth join prints the line that starts a worker on one"}
}

// choose is the first yes; else the first no that waiting could change, and how many others say no.
func choose(answers []answer) answer {
	best := answers[0]
	for _, a := range answers {
		if a.OK {
			return a
		}
		if best.Never && !a.Never {
			best = a
		}
	}
	switch others := len(answers) - 1; others {
	case 0:
	case 1:
		best.Text += " (and no on the other machine)"
	default:
		best.Text += fmt.Sprintf(" (and no on %d other machines)", others)
	}
	return best
}

// ask is one machine's word. One that does not answer says no; only the broker's silence is an error.
func (c checker) ask(ctx context.Context, machine string) (answer, error) {
	a := answer{Version: 1, Machine: machine}
	room, err := c.q.AskRoom(ctx, machine, c.req, c.me)
	switch {
	case errors.Is(err, queue.ErrNoWorker), errors.Is(err, context.DeadlineExceeded):
		a.Text = fmt.Sprintf("no: the worker of %s does not answer", machine)
		return a, nil
	case err != nil:
		return a, err
	}
	a.OK, a.Never = room.OK, room.Never
	if a.OK {
		a.Text = fmt.Sprintf("%s: %s", machine, room.Text)
	} else {
		a.Text = fmt.Sprintf("%s: no: %s", machine, room.Text)
	}
	return a, nil
}

// memoryFlag is a size.
type memoryFlag struct{ m job.Memory }

func (f *memoryFlag) Set(s string) (err error) { return f.m.UnmarshalText([]byte(s)) }
func (f *memoryFlag) String() string           { return f.m.String() }
func (f *memoryFlag) Type() string             { return "SIZE" }

// textFlag is a duration, as people write it.
type textFlag struct{ d *job.Duration }

func (f textFlag) Set(s string) error { return f.d.UnmarshalText([]byte(s)) }
func (f textFlag) Type() string       { return "TIME" }
func (f textFlag) String() string {
	if f.d == nil || *f.d == 0 {
		return ""
	}
	return f.d.String()
}
