package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
)

// Globals are the flags of every command that talks to a broker or prints a list.
type Globals struct {
	Output  table.Format
	NoColor bool
	Quiet   bool
	Verbose bool

	flags  *pflag.FlagSet
	env    Env
	screen *screen.Terminal // nil: what env's standard output is
}

// NewGlobals binds the global flags to cmd and everything under it.
func NewGlobals(cmd *cobra.Command, env Env) *Globals {
	f := cmd.PersistentFlags()
	g := &Globals{Output: table.Table, env: env, flags: f}
	f.String("server", "", "the broker's `URL` (BERTH_SERVER; default what berth up wrote, else nats://127.0.0.1:4222)")
	f.String("creds", "", "NATS credentials `FILE` (BERTH_CREDS)")
	f.String("context", "", "NATS context `NAME` (BERTH_CONTEXT)")
	f.VarP(&g.Output, "output", "o", "table, wide, json, jsonl, csv or name")
	f.BoolVar(&g.NoColor, "no-color", false, "no colours (NO_COLOR)")
	f.BoolVarP(&g.Quiet, "quiet", "q", false, "only the answer")
	f.BoolVarP(&g.Verbose, "verbose", "v", false, "say more")
	return g
}

// Screen is standard output as the flags allow it.
func (g *Globals) Screen() screen.Terminal {
	if g.screen != nil {
		return *g.screen
	}
	return g.plain(g.env.Screen())
}

// Console is standard error as the flags allow it.
func (g *Globals) Console() screen.Terminal { return g.plain(g.env.Console()) }

func (g *Globals) plain(t screen.Terminal) screen.Terminal {
	t.Color = t.Color && !g.NoColor
	return t
}

// Say writes one of Berth's own lines to standard error, unless -q.
func (g *Globals) Say(format string, args ...any) {
	if !g.Quiet {
		fmt.Fprintf(g.env.Stderr, format+"\n", args...)
	}
}

// Out is where data goes.
func (g *Globals) Out() io.Writer { return g.env.Stdout }

// Env is the world the flags were made in.
func (g *Globals) Env() Env { return g.env }

// Print writes rows as -o asks.
func Print[T any](g *Globals, v table.View[T], rows []T) error {
	return v.Print(g.Out(), g.Screen(), g.Output, rows)
}

// Within is the same settings in another world: a demonstration's, whose files are its own.
func (g *Globals) Within(env Env) *Globals {
	other := *g
	other.env = env
	return &other
}
