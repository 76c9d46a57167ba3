package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

func newMachines(g *cli.Globals) *cobra.Command {
	var plain bool
	cmd := &cobra.Command{
		Use:     "machines",
		Short:   "list the machines and what they do, the best place for a job first",
		Example: "  berth machines -w\n  berth machines -o wide               # versions, limits, as whom jobs run",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return look(g, cmd, func(ctx context.Context, g *cli.Globals, q *queue.Queue) error {
				all, err := q.Machines(ctx)
				if err != nil {
					return cli.Broker(err)
				}
				ranked := rank(all, !plain)
				if err := cli.Print(g, machineTable(g.Env().Now()), ranked); err != nil || !g.Output.ForPeople() {
					return err
				}
				for _, m := range ranked {
					for _, w := range m.Warnings {
						g.Say("%s: %s", m.Name, screen.Safe(w))
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&plain, "no-ranking", false, "by name, not best first")
	return watchable(cmd)
}

func machineTable(now time.Time) table.View[standing] {
	return table.View[standing]{
		Name:  func(m standing) string { return m.Name },
		Empty: "no machine is connected; berth join prints the line that starts a worker on one",
		Columns: []table.Column[standing]{
			{Title: "MACHINE", Field: "name", Cell: func(m standing) table.Cell { return table.Text(m.Name) }},
			{Title: "STATE", Field: "state", Cell: machineState},
			{Title: "GPUS", Field: "gpus", Right: true, Cell: func(m standing) table.Cell { return table.Text(strconv.Itoa(len(m.GPUs))) }},
			{Title: "FREE", Field: "gpus_free", Right: true, Cell: func(m standing) table.Cell { return table.Text(strconv.Itoa(freeGPUs(m.Machine))) }},
			{Title: "IDLE", Field: "idle_gpus", Right: true, Drop: 2, Cell: func(m standing) table.Cell { return table.Text(strconv.Itoa(m.IdleGPUs)) }},
			{Title: "RUNS", Field: "running", Right: true, Cell: func(m standing) table.Cell { return table.Text(strconv.Itoa(len(m.Running))) }},
			{Title: "CPUS", Field: "cpus", Right: true, Drop: 3, Cell: func(m standing) table.Cell { return table.Text(strconv.Itoa(m.CPUs)) }},
			{Title: "MEMORY", Field: "memory_mb", Right: true, Drop: 4, Cell: func(m standing) table.Cell { return table.Text(screen.Memory(m.MemoryMB)) },
				Raw: func(m standing) string { return strconv.FormatInt(m.MemoryMB, 10) }},
			{Title: "RUNS AS", Field: "runs_as", Wide: true, Cell: func(m standing) table.Cell { return table.Text(m.RunsAs) }},
			{Title: "SOURCE", Field: "gpu_source", Wide: true, Cell: func(m standing) table.Cell { return table.Text(m.Source) }},
			{Title: "ISOLATION", Field: "isolation", Wide: true, Cell: func(m standing) table.Cell { return table.Text(dash(m.Isolation)) }},
			{Title: "VERSION", Field: "version", Wide: true, Cell: func(m standing) table.Cell { return table.Text(m.Version) }},
			{Title: "LABELS", Field: "labels", Drop: 1, Shrink: 10, Cell: func(m standing) table.Cell { return table.Text(labels(m.Labels)) }},
			{Title: "SEEN", Field: "at", Drop: 5, Cell: func(m standing) table.Cell {
				return table.Cell{Text: screen.Ago(m.At, now), Color: screen.Dim}
			}, Raw: func(m standing) string { return stamp(&m.At) }},
		},
	}
}

func machineState(m standing) table.Cell {
	if m.Draining {
		return table.Cell{Text: "draining", Color: screen.Yellow}
	}
	if m.Degraded {
		return table.Cell{Text: "degraded", Color: screen.Yellow} // nothing is known of its GPUs
	}
	return table.Cell{Text: "ready", Color: screen.Green}
}

func freeGPUs(m queue.Machine) int {
	n := 0
	for _, gpu := range m.GPUs {
		if gpu.State == "ready" && gpu.Active == 0 {
			n++
		}
	}
	return n
}

func labels(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, " ")
}

// machineGPU is one device with where it is.
type machineGPU struct {
	Version int    `json:"version"`
	Machine string `json:"machine"`
	Idle    bool   `json:"idle"` // under 30 % utilisation and 50 % of memory, and in service
	queue.GPU
}

func newGPUs(g *cli.Globals) *cobra.Command {
	var plain bool
	cmd := &cobra.Command{
		Use:     "gpus",
		Short:   "list every GPU of every machine, the best machine first: who holds it, what is free",
		Example: "  berth gpus\n  berth gpus -o name        # UUIDs",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownVerb(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return look(g, cmd, func(ctx context.Context, g *cli.Globals, q *queue.Queue) error {
				all, err := q.Machines(ctx)
				if err != nil {
					return cli.Broker(err)
				}
				var rows []machineGPU
				for _, m := range rank(all, !plain) {
					for _, gpu := range m.GPUs {
						rows = append(rows, machineGPU{1, m.Name, idle(gpu), gpu})
					}
				}
				return cli.Print(g, gpuTable(len(all)), rows)
			})
		},
	}
	cmd.Flags().BoolVar(&plain, "no-ranking", false, "machines by name, not best first")
	cmd.AddCommand(newQuarantine(g), newRestore(g))
	return watchable(cmd)
}

func gpuTable(machines int) table.View[machineGPU] {
	empty := "no machine is connected; berth join prints the line that starts a worker on one"
	if machines > 0 {
		empty = fmt.Sprintf("%s, no GPU among them: only jobs without one run", screen.Plural(machines, "machine"))
	}
	return table.View[machineGPU]{
		Name:  func(r machineGPU) string { return r.UUID },
		Empty: empty,
		Columns: []table.Column[machineGPU]{
			{Title: "MACHINE", Field: "machine", Shrink: 8, Cell: func(r machineGPU) table.Cell { return table.Text(r.Machine) }},
			{Title: "GPU", Field: "index", Right: true, Cell: func(r machineGPU) table.Cell { return table.Text(strconv.Itoa(r.Index)) }},
			{Title: "MODEL", Field: "name", Shrink: 8, Drop: 4, Cell: func(r machineGPU) table.Cell { return table.Text(r.Name) }},
			{Title: "STATE", Field: "state", Cell: func(r machineGPU) table.Cell { return table.Cell{Text: r.State, Color: gpuColor(r.State)} }},
			{Title: "FREE", Field: "memory_free_mb", Right: true, Cell: func(r machineGPU) table.Cell { return table.Text(freeText(r.GPU)) },
				Raw: func(r machineGPU) string { return number(r.MemoryFreeMB) }},
			{Field: "memory_total_mb", Cell: func(r machineGPU) table.Cell { return table.Text(strconv.FormatInt(r.MemoryTotalMB, 10)) }},
			{Title: "UTIL", Field: "utilization_percent", Right: true, Drop: 2, Cell: func(r machineGPU) table.Cell { return table.Text(gauge(r.UtilizationPercent, "%.0f %%")) },
				Raw: func(r machineGPU) string { return float(r.UtilizationPercent) }},
			{Title: "TEMP", Field: "temperature_c", Right: true, Drop: 6, Cell: func(r machineGPU) table.Cell { return table.Text(gauge(r.TemperatureC, "%.0f °C")) },
				Raw: func(r machineGPU) string { return float(r.TemperatureC) }},
			{Title: "POWER", Field: "power_w", Right: true, Drop: 7, Cell: func(r machineGPU) table.Cell { return table.Text(gauge(r.PowerW, "%.0f W")) },
				Raw: func(r machineGPU) string { return float(r.PowerW) }},
			{Title: "SCORE", Field: "score", Right: true, Drop: 5, Cell: func(r machineGPU) table.Cell { return table.Text(gauge(r.Score, "%.2f")) },
				Raw: func(r machineGPU) string { return float(r.Score) }},
			{Title: "SLOTS", Field: "slots", Right: true, Drop: 8, Cell: func(r machineGPU) table.Cell { return table.Text(fmt.Sprintf("%d/%d", r.Active, r.Slots)) },
				Raw: func(r machineGPU) string { return strconv.Itoa(r.Slots) }},
			{Field: "active", Cell: func(r machineGPU) table.Cell { return table.Text(strconv.Itoa(r.Active)) }},
			{Field: "idle", Cell: func(r machineGPU) table.Cell { return table.Text(strconv.FormatBool(r.Idle)) }},
			{Title: "JOBS", Field: "jobs", Shrink: 6, Drop: 3, Cell: func(r machineGPU) table.Cell { return table.Text(dash(strings.Join(r.Jobs, " "))) },
				Raw: func(r machineGPU) string { return strings.Join(r.Jobs, " ") }},
			{Title: "UUID", Field: "uuid", Wide: true, Cell: func(r machineGPU) table.Cell { return table.Text(r.UUID) }},
			{Title: "WHY", Field: "why", Drop: 1, Shrink: 12, Cell: func(r machineGPU) table.Cell { return table.Text(foreignText(r.GPU)) },
				Raw: func(r machineGPU) string { return r.Why }},
		},
	}
}

func gpuColor(state string) screen.Color {
	switch state {
	case "ready":
		return screen.Green
	case "quarantined", "unreadable":
		return screen.Red
	}
	return screen.Yellow
}

func freeText(gpu queue.GPU) string {
	if gpu.MemoryFreeMB == nil {
		return "-"
	}
	if gpu.MemoryTotalMB == 0 {
		return screen.Memory(*gpu.MemoryFreeMB)
	}
	return screen.MemoryOf(*gpu.MemoryFreeMB, gpu.MemoryTotalMB)
}

func foreignText(gpu queue.GPU) string {
	switch {
	case len(gpu.Foreign) > 0:
		return "foreign: " + strings.Join(gpu.Foreign, ", ")
	case gpu.State == "busy":
		return "" // the column of jobs says it
	}
	return gpu.Why
}

func gauge(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func float(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

func number(v *int64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(*v, 10)
}
