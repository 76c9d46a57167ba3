package lease

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func newList(g *cli.Globals) *cobra.Command {
	var machine string
	var managed, idle, info bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "list leases, or the GPUs there are for them",
		Long: "List the leases that are held and those that wait, on all machines. The other lists are of GPUs: --managed all that Berth\n" +
			"gives out and who has them, --idle those that are free and do nothing, --info everything that is known.",
		Example: "  berth lease ls\n  berth lease ls --idle -o name      # UUIDs",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if managed && idle || managed && info || idle && info {
				return exit.Errorf(exit.Usage, "--managed, --idle and --info are three lists: want one of them")
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				places, err := everywhere(ctx, g, q, machine)
				if err != nil {
					return err
				}
				held, err := heldOn(ctx, g, q, places)
				if err != nil {
					return err
				}
				if managed || idle || info {
					return cli.Print(g, gpuTable(g.Env().Now(), info), gpuRows(places, held, idle))
				}
				return list(ctx, g, q, held, machine)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&managed, "managed", false, "the GPUs that are given out, and who has them")
	f.BoolVar(&idle, "idle", false, "the GPUs that nobody has and that do nothing")
	f.BoolVar(&info, "info", false, "the GPUs with everything that is known of them")
	f.StringVar(&machine, "machine", "", "only this machine")
	return cmd
}

// everywhere lists all machines, or the one named.
func everywhere(ctx context.Context, g *cli.Globals, q *queue.Queue, name string) ([]place, error) {
	if name != "" {
		return machinesFor(ctx, g, q, name)
	}
	all, err := q.Machines(ctx)
	if err != nil {
		return nil, cli.Broker(err)
	}
	places := make([]place, len(all))
	for i, m := range all {
		places[i] = place{Machine: m}
	}
	return places, nil
}

// row is one lease in the list.
type row struct {
	Version int `json:"version"`
	queue.HeldLease
	State string     `json:"state"` // held, waiting
	Since *time.Time `json:"since"` // held or waiting
}

// waitingShown bounds the waiting leases of a list.
const waitingShown = 500

func list(ctx context.Context, g *cli.Globals, q *queue.Queue, held []queue.HeldLease, machine string) error {
	rows := []row{}
	for _, l := range held {
		rows = append(rows, row{1, l, "held", &l.Since})
	}
	waiting, _, err := q.List(ctx, queue.Filter{States: []job.State{job.Queued, job.Held}}, queue.Page{Limit: waitingShown})
	if err != nil {
		return cli.Broker(err)
	}
	for i := len(waiting) - 1; i >= 0; i-- { // oldest first
		v := waiting[i]
		if v.Job == nil || !v.Job.Spec.IsLease() || machine != "" && v.Needs.Machine != machine {
			continue
		}
		rows = append(rows, row{1, queue.HeldLease{
			Number: v.Number, Name: v.Name, Project: v.Project, User: v.User, Machine: v.Needs.Machine, GPUs: make([]job.LeasedGPU, v.Needs.GPUs),
		}, "waiting", &v.QueuedAt})
	}
	return cli.Print(g, leaseTable(g.Env().Now()), rows)
}

func leaseTable(now time.Time) table.View[row] {
	return table.View[row]{
		Name:  func(r row) string { return strconv.FormatUint(r.Number, 10) },
		Empty: "nothing is leased; berth lease get leases a GPU",
		Columns: []table.Column[row]{
			{Title: "LEASE", Field: "number", Right: true, Cell: func(r row) table.Cell { return table.Text(strconv.FormatUint(r.Number, 10)) }},
			{Title: "USER", Field: "user", Shrink: 6, Cell: func(r row) table.Cell { return table.Text(r.User) }},
			{Title: "STATE", Field: "state", Cell: stateCell},
			{Title: "MACHINE", Field: "machine", Shrink: 8, Cell: func(r row) table.Cell { return table.Text(dash(r.Machine)) }},
			{Title: "GPUS", Field: "indexes", Cell: func(r row) table.Cell { return table.Text(gpusText(r)) }},
			{Title: "SINCE", Field: "since", Drop: 2, Cell: func(r row) table.Cell { return table.Text(screen.Ago(*r.Since, now)) },
				Raw: func(r row) string { return stamp(r.Since) }},
			{Title: "ENDS", Field: "until", Cell: func(r row) table.Cell { return table.Text(endText(r, now)) },
				Raw: func(r row) string { return stamp(r.Until) }},
			{Title: "NAME", Field: "name", Drop: 1, Shrink: 8, Cell: func(r row) table.Cell { return table.Text(dash(r.Name)) },
				Raw: func(r row) string { return r.Name }},
			{Title: "PROJECT", Field: "project", Wide: true, Cell: func(r row) table.Cell { return table.Text(r.Project) }},
			{Title: "UUIDS", Field: "uuids", Wide: true, Cell: func(r row) table.Cell { return table.Text(dash(grant{GPUs: r.GPUs}.uuids())) }},
		},
	}
}

func stateCell(r row) table.Cell {
	if r.State == "held" {
		return table.Cell{Text: r.State, Color: screen.Green}
	}
	return table.Cell{Text: r.State, Color: screen.Yellow}
}

// gpusText names the GPUs of a held lease, and counts those a waiting one wants.
func gpusText(r row) string {
	if r.State == "held" {
		return grant{GPUs: r.GPUs}.indexes()
	}
	return fmt.Sprintf("wants %d", len(r.GPUs))
}

func endText(r row, now time.Time) string {
	var parts []string
	if r.Until != nil {
		parts = append(parts, screen.Ago(*r.Until, now))
	}
	if r.Process != nil {
		parts = append(parts, fmt.Sprintf("with process %d", r.Process.PID))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", or ")
}

func newLog(g *cli.Globals) *cobra.Command {
	var since, user string
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "show who took what, when, and how it was given back",
		Example: "  berth lease log --since 1h\n  berth lease log --user ada -o json",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			back, err := job.ParseDuration(since)
			if err != nil {
				return exit.Errorf(exit.Usage, "--since: %w", err)
			}
			return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
				all, err := q.Events(ctx, queue.LeaseEvent, g.Env().Now().Add(-back.Std()))
				if err != nil {
					return cli.Broker(err)
				}
				rows := []queue.Event{}
				for _, e := range all {
					if user == "" || e.By == user {
						rows = append(rows, e)
					}
				}
				return cli.Print(g, logTable(), rows)
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "7d", "the last 1h, 7d")
	cmd.Flags().StringVar(&user, "user", "", "only what this user took")
	return cmd
}

func logTable() table.View[queue.Event] {
	return table.View[queue.Event]{
		Name: func(e queue.Event) string { return e.Job },
		Value: func(e queue.Event) any {
			return struct {
				Version int `json:"version"`
				queue.Event
			}{1, e}
		},
		Empty: "nothing was leased in that time",
		Columns: []table.Column[queue.Event]{
			{Title: "WHEN", Field: "at", Cell: func(e queue.Event) table.Cell { return table.Text(e.At.Local().Format("2006-01-02 15:04:05")) },
				Raw: func(e queue.Event) string { return stamp(&e.At) }},
			{Title: "LEASE", Field: "job", Right: true, Cell: func(e queue.Event) table.Cell { return table.Text(e.Job) }},
			{Title: "USER", Field: "by", Cell: func(e queue.Event) table.Cell { return table.Text(e.By) }},
			{Title: "MACHINE", Field: "machine", Drop: 1, Cell: func(e queue.Event) table.Cell { return table.Text(e.Machine) }},
			{Title: "GPUS", Field: "indexes", Cell: func(e queue.Event) table.Cell { return table.Text(e.Facts["indexes"]) }},
			{Title: "WHAT", Field: "text", Shrink: 12, Cell: func(e queue.Event) table.Cell { return table.Text(e.Text) }},
			{Title: "UUIDS", Field: "gpus", Wide: true, Cell: func(e queue.Event) table.Cell { return table.Text(e.Facts["gpus"]) }},
		},
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// stamp is a time for programs.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
