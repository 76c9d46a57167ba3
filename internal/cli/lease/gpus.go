package lease

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

// A GPU is idle below both of these: the founding criterion.
const (
	idleUtilization = 30 // percent
	idleMemory      = 50 // percent of the card
)

// card is one GPU with who has it.
type card struct {
	Version int    `json:"version"`
	Machine string `json:"machine"`
	queue.GPU
	Lease *queue.HeldLease `json:"lease,omitempty"`
}

// gpuRows lists the machines' GPUs, or those of them that are idle.
func gpuRows(places []place, held []queue.HeldLease, idle bool) []card {
	leased := map[string]*queue.HeldLease{}
	for i := range held {
		for _, d := range held[i].GPUs {
			leased[held[i].Machine+" "+d.UUID] = &held[i]
		}
	}
	rows := []card{}
	for _, p := range places {
		for _, d := range p.GPUs {
			c := card{Version: 1, Machine: p.Name, GPU: d, Lease: leased[p.Name+" "+d.UUID]}
			if !idle || c.isIdle() {
				rows = append(rows, c)
			}
		}
	}
	return rows
}

// isIdle: nobody has it, it may be given, and it does nothing. Where it cannot be read, what is known decides.
func (c card) isIdle() bool {
	busy := c.UtilizationPercent != nil && *c.UtilizationPercent >= idleUtilization
	full := c.MemoryFreeMB != nil && 100*(c.MemoryTotalMB-*c.MemoryFreeMB) >= idleMemory*c.MemoryTotalMB
	return c.Lease == nil && c.Active == 0 && c.State == "ready" && !busy && !full
}

// holder says who has the card.
func (c card) holder() string {
	var parts []string
	if c.Lease != nil {
		parts = append(parts, fmt.Sprintf("%s (lease %d)", c.Lease.User, c.Lease.Number))
	}
	for _, j := range c.Jobs {
		if c.Lease == nil || j != strconv.FormatUint(c.Lease.Number, 10) {
			parts = append(parts, "job "+j)
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func gpuTable(now time.Time, info bool) table.View[card] {
	v := table.View[card]{
		Name:  func(c card) string { return c.UUID },
		Empty: "no such GPU",
		Columns: []table.Column[card]{
			{Title: "MACHINE", Field: "machine", Shrink: 8, Cell: func(c card) table.Cell { return table.Text(c.Machine) }},
			{Title: "GPU", Field: "index", Right: true, Cell: func(c card) table.Cell { return table.Text(strconv.Itoa(c.Index)) }},
			{Title: "STATE", Field: "state", Cell: func(c card) table.Cell { return table.Text(c.State) }},
			{Title: "HOLDER", Field: "holder", Shrink: 10, Cell: func(c card) table.Cell { return table.Text(c.holder()) }},
			{Title: "ENDS", Field: "until", Drop: 2, Cell: func(c card) table.Cell { return table.Text(c.ends(now)) },
				Raw: func(c card) string { return stamp(c.until()) }},
			{Title: "UTIL", Field: "utilization_percent", Right: true, Drop: 1, Cell: func(c card) table.Cell { return table.Text(figure(c.UtilizationPercent, " %")) },
				Raw: func(c card) string { return figure(c.UtilizationPercent, "") }},
			{Title: "FREE", Field: "memory_free_mb", Right: true, Drop: 3, Cell: func(c card) table.Cell { return table.Text(free(c)) },
				Raw: func(c card) string { return megabytes(c.MemoryFreeMB) }},
			{Title: "UUID", Field: "uuid", Drop: 4, Cell: func(c card) table.Cell { return table.Text(c.UUID) }},
		},
	}
	if !info {
		return v
	}
	v.Columns = append(v.Columns,
		table.Column[card]{Title: "MODEL", Field: "name", Shrink: 8, Drop: 5, Cell: func(c card) table.Cell { return table.Text(c.Name) }},
		table.Column[card]{Title: "TEMP", Field: "temperature_c", Right: true, Drop: 7, Cell: func(c card) table.Cell { return table.Text(figure(c.TemperatureC, " °C")) },
			Raw: func(c card) string { return figure(c.TemperatureC, "") }},
		table.Column[card]{Title: "POWER", Field: "power_w", Right: true, Drop: 8, Cell: func(c card) table.Cell { return table.Text(figure(c.PowerW, " W")) },
			Raw: func(c card) string { return figure(c.PowerW, "") }},
		table.Column[card]{Title: "SLOTS", Field: "slots", Right: true, Drop: 6, Cell: func(c card) table.Cell { return table.Text(fmt.Sprintf("%d/%d", c.Active, c.Slots)) }},
		table.Column[card]{Title: "WHY", Field: "why", Shrink: 12, Drop: 9, Cell: func(c card) table.Cell { return table.Text(strings.Join(append([]string{c.Why}, c.Foreign...), " ")) }},
	)
	return v
}

func (c card) until() *time.Time {
	if c.Lease == nil {
		return nil
	}
	return c.Lease.Until
}

func (c card) ends(now time.Time) string {
	if c.Lease == nil {
		return "-"
	}
	return endText(row{HeldLease: *c.Lease}, now)
}

// figure is a gauge for people, or without a unit for programs.
func figure(v *float64, unit string) string {
	switch {
	case v == nil && unit == "":
		return ""
	case v == nil:
		return "-"
	}
	return fmt.Sprintf("%.0f%s", *v, unit)
}

func megabytes(v *int64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(*v, 10)
}

func free(c card) string {
	if c.MemoryFreeMB == nil {
		return "-"
	}
	return screen.MemoryOf(*c.MemoryFreeMB, c.MemoryTotalMB)
}
