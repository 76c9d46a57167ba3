package submit

import (
	"context"
	"fmt"
	"strings"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

// askFleet refuses what none of the machines known now could ever run: exit 5, with what the fleet has. A fleet without
// a machine, and --force, refuse nothing. notes[i] is why job i will wait, empty where nothing is known against it.
func askFleet(ctx context.Context, q *queue.Queue, f *flags, jobs []prepared) (notes []string, err error) {
	notes = make([]string, len(jobs))
	machines, err := q.Machines(ctx)
	if err != nil {
		return nil, cli.Broker(err)
	}
	for i, p := range jobs {
		switch why := impossible(machines, p.job); {
		case len(machines) == 0:
			notes[i] = "no machine is connected yet: it waits until a worker starts"
		case why != "" && f.force:
			notes[i] = "no machine known now could run it: it waits for one that can"
		case why != "":
			return nil, exit.Errorf(exit.Refused, "no machine could ever run it: %s", why).
				Hinted("the fleet has %s; --force queues it all the same", fleetText(machines))
		}
	}
	return notes, nil
}

// impossible says why no machine could ever run some task of the job, "" when one could.
func impossible(machines []queue.Machine, j job.Job) string {
	wanted := []job.Requirements{j.Requirements}
	if j.Tasks != nil && len(j.Tasks.Requirements) > 0 {
		wanted = j.Tasks.Requirements
	}
	pools := poolsOf(machines)
	for _, req := range wanted {
		if why := noneFits(pools, req); why != "" {
			return why
		}
	}
	return ""
}

func noneFits(pools []machinePool, req job.Requirements) string {
	var reasons []string
	for _, p := range pools {
		err := p.CanEver(req)
		if err == nil {
			return ""
		}
		reasons = append(reasons, err.Error())
	}
	const shown = 3
	if more := len(reasons) - shown; more > 0 {
		reasons = append(reasons[:shown], fmt.Sprintf("and %d more machines", more))
	}
	return strings.Join(reasons, "; ")
}

// machinePool is a machine by name, as its own worker would judge it with everything free.
type machinePool struct {
	*gpuslots.Pool
	name string
}

func poolsOf(machines []queue.Machine) []machinePool {
	pools := make([]machinePool, 0, len(machines))
	for _, m := range machines {
		if p, err := poolOf(m); err == nil { // a machine of another version may announce what we cannot read
			pools = append(pools, machinePool{p, m.Name})
		}
	}
	return pools
}

func poolOf(m queue.Machine) (*gpuslots.Pool, error) {
	o := gpuslots.Options{Machine: m.Name, CPUs: m.CPUs, MemoryMB: m.MemoryMB, Labels: m.Labels, NoContainers: m.NoContainers}
	if m.Containers == "" && m.NoContainers == "" {
		o.NoContainers = "its worker does not say that it has an engine"
	}
	if o.Frameworks = m.Frameworks; o.Frameworks == nil { // not known yet: nothing speaks against any
		o.Frameworks = gpuslots.Frameworks{}
		for _, f := range job.Frameworks {
			o.Frameworks[f] = nil
		}
	}
	for _, g := range m.GPUs {
		o.Devices = append(o.Devices, telemetry.Device{UUID: g.UUID, Index: g.Index, Name: g.Name, MemoryTotalMB: g.MemoryTotalMB,
			ComputeCapability: g.ComputeCapability})
		o.SlotsPerGPU = max(o.SlotsPerGPU, g.Slots)
	}
	return gpuslots.New(o)
}

// fleetText lists what there is: "titan: 2 x NVIDIA A10 (24 GiB), 32 cores".
func fleetText(machines []queue.Machine) string {
	const shown = 4
	var parts []string
	for i, m := range machines {
		if i == shown {
			parts = append(parts, screen.Plural(len(machines)-shown, "more machine"))
			break
		}
		parts = append(parts, m.Name+": "+cardsText(m)+screen.Plural(m.CPUs, "core"))
	}
	return strings.Join(parts, "; ")
}

func cardsText(m queue.Machine) string {
	type kind struct {
		name string
		mb   int64
	}
	var order []kind
	count := map[kind]int{}
	for _, g := range m.GPUs {
		k := kind{g.Name, g.MemoryTotalMB}
		if count[k] == 0 {
			order = append(order, k)
		}
		count[k]++
	}
	if len(order) == 0 {
		return "no GPU, "
	}
	s := ""
	for _, k := range order {
		s += fmt.Sprintf("%d x %s (%s), ", count[k], k.name, screen.Memory(k.mb))
	}
	return s
}
