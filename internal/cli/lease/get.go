package lease

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

func newGet(g *cli.Globals) *cobra.Command {
	var w *wish
	var short string
	cmd := &cobra.Command{
		Use:   "get",
		Short: "wait for GPUs and hold them",
		Long: "Stand in the queue, first come first served among equals, until GPUs of this machine are free, and hold them.\n" +
			"Into a pipe, and with --short, it prints the GPUs, comma-separated, and nothing else. Ctrl-C takes the wish back.",
		Example: "  export CUDA_VISIBLE_DEVICES=$(berth lease get -g 2 --pid $$ --short)\n" +
			"  GPUID=$(berth lease get --short=index)\n" +
			"  berth lease get -m 20Gi --wait 0 || echo nothing free",
		Args: cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short != "" && short != "uuid" && short != "index" {
				return exit.Errorf(exit.Usage, "--short=%s: want --short=uuid or --short=index", short)
			}
			if err := w.check(g.Env()); err != nil {
				return err
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				got, err := w.obtain(ctx, g, q)
				if err != nil {
					return err
				}
				return printGrant(g, got, short)
			})
		},
	}
	w = bindWish(cmd.Flags())
	cmd.Flags().IntVar(&w.pid, "pid", 0, "release it when this process ends; $$ is the shell")
	cmd.Flags().StringVar(&w.machine, "machine", "", "on this machine instead of the one we are on")
	cmd.Flags().StringVar(&short, "short", "", "print the GPUs alone: uuid (default) or index")
	cmd.Flags().Lookup("short").NoOptDefVal = "uuid"
	return cmd
}

func printGrant(g *cli.Globals, got grant, short string) error {
	switch {
	case short == "index":
		_, err := fmt.Fprintln(g.Out(), got.indexes())
		return err
	case short == "uuid":
		_, err := fmt.Fprintln(g.Out(), got.uuids())
		return err
	case g.Output == table.JSON:
		return table.WriteJSON(g.Out(), got)
	case !g.Output.ForPeople():
		return cli.Print(g, grantView, []grant{got})
	case g.Quiet || !g.Screen().TTY:
		_, err := fmt.Fprintln(g.Out(), got.uuids())
		return err
	}
	term := g.Screen()
	names := make([]string, len(got.GPUs))
	for i, d := range got.GPUs {
		names[i] = fmt.Sprintf("GPU %d", d.Index)
	}
	until := "until it is released"
	if got.Until != nil {
		until = "until " + got.Until.Local().Format("2006-01-02 15:04") + ", " + screen.Ago(*got.Until, g.Env().Now())
	}
	fmt.Fprintf(g.Out(), "lease %s: %s of %s, %s\n", term.Paint(screen.Bold, got.ref().String()), strings.Join(names, ", "), screen.Safe(got.Machine), until)
	_, err := fmt.Fprintf(g.Out(), "  %s\n", term.Paint(screen.Dim, "export CUDA_VISIBLE_DEVICES="+got.uuids()+"   berth lease release "+got.ref().String()))
	return err
}

var grantView = table.View[grant]{
	Name: func(g grant) string { return g.ref().String() },
	Columns: []table.Column[grant]{
		{Field: "lease", Cell: func(g grant) table.Cell { return table.Text(g.ref().String()) }},
		{Field: "machine", Cell: func(g grant) table.Cell { return table.Text(g.Machine) }},
		{Field: "gpus", Cell: func(g grant) table.Cell { return table.Text(g.uuids()) }},
		{Field: "indexes", Cell: func(g grant) table.Cell { return table.Text(g.indexes()) }},
		{Field: "until", Cell: func(g grant) table.Cell { return table.Text(stamp(g.Until)) }},
	},
}
