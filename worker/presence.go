package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/telemetry"
)

// announceEvery is how often the machine says that it is there; presence is believed for 15 s.
const announceEvery = 5 * time.Second

// announce tells the fleet what this machine has and does, until ctx ends: regularly, and soon after a change.
func (w *Worker) announce(ctx context.Context) {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		if err := w.announceOnce(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug("not_announced", "err", err) // the next one makes it good
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.pool.Changed(): // there may be more room, and somebody may be waiting to hear it (berth check --wait)
			pause(ctx, 200*time.Millisecond)
		case <-w.news:
			pause(ctx, 200*time.Millisecond) // a burst of changes is one piece of news
		}
	}
}

// tell asks for an announcement soon.
func (w *Worker) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *Worker) announceOnce(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, announceEvery)
	defer cancel()
	m := w.machine()
	w.shares.announced(queue.Holdings{GPUs: m.Projects, Hours: m.Hours})
	return w.cfg.Queue.Announce(try, m)
}

// machine is this machine as others see it.
func (w *Worker) machine() queue.Machine {
	now := w.cfg.Now()
	status := w.pool.Status(now)
	snap, _ := w.sampler.Latest()
	holds := w.holds()
	m := queue.Machine{
		Name: w.cfg.Machine, Instance: w.instance, Session: w.session().ID(), Version: w.cfg.Version, At: now.UTC(),
		Boot: proc.BootID(), PIDSpace: proc.PIDSpace(), Source: w.source.Name(), Isolation: w.runner.Isolation().Level, CPUs: status.CPUs, MemoryMB: status.MemoryMB, Labels: w.cfg.Slots.Labels,
		Draining: w.draining.Load(), RunsAs: RunsAs(w.cfg.Users), Projects: holds.GPUs, Hours: holds.Hours, Refusals: map[string]string{}, Never: map[string]string{}, Reasons: map[string]string{}, Progress: map[string]job.Progress{},
	}
	on := map[string][]string{}
	w.runs.each(func(a *attempt) {
		ref := a.claim.Ref().String()
		m.Running = append(m.Running, ref)
		if p := w.progressNow(a); p != nil {
			m.Progress[ref] = *p
		}
		for _, d := range a.devices() {
			on[d.UUID] = append(on[d.UUID], ref)
		}
	})
	slices.Sort(m.Running)
	for _, g := range status.GPUs {
		m.GPUs = append(m.GPUs, gpuOf(g, snap, on[g.UUID]))
	}
	m.Frameworks, m.Warnings = w.frameworks.report()
	m.Warnings = append(m.Warnings, w.appeared(snap)...)
	m.Containers, m.NoContainers = w.engine.report()
	w.refusals(&m, now)
	return m
}

// appeared names the GPUs that the machine has and the pool does not: a card was added, renamed, or cut up anew.
func (w *Worker) appeared(snap telemetry.Snapshot) []string {
	var warnings []string
	for _, d := range snap.Devices {
		if slices.ContainsFunc(w.devices, func(own telemetry.Device) bool { return own.UUID == d.UUID }) {
			continue
		}
		if w.cfg.GPUs == nil || w.cfg.GPUs(d) {
			warnings = append(warnings, fmt.Sprintf("GPU %s (%s, %s) was not there when the worker started: restart the worker to give it out; what runs goes on", d.Key(), d.Name, d.UUID))
		}
	}
	return warnings
}

func gpuOf(g gpuslots.GPUStatus, snap telemetry.Snapshot, jobs []string) queue.GPU {
	slices.Sort(jobs)
	out := queue.GPU{
		UUID: g.UUID, Index: g.Index, Name: g.Name, MemoryTotalMB: g.TotalMB, MemoryFreeMB: g.FreeMB,
		UtilizationPercent: g.UtilizationPercent, ComputeCapability: g.ComputeCapability, Score: &g.Score,
		Slots: g.Slots, Active: g.Active, State: string(g.State), Why: g.Why, Foreign: foreignText(g.Foreign), Jobs: jobs,
	}
	if r, ok := snap.Reading(g.UUID); ok {
		out.TemperatureC, out.PowerW, out.MemoryUsedMB = r.TemperatureC, r.PowerW, r.MemoryUsedMB
	}
	return out
}

// foreignText names the processes that are not ours: who, what, how much.
func foreignText(procs []telemetry.Process) []string {
	var out []string
	for _, p := range procs {
		name, _, _ := strings.Cut(p.Command, " ")
		text := fmt.Sprintf("%s (pid %d", name[strings.LastIndexByte(name, '/')+1:], p.PID)
		if p.User != "" {
			text += ", " + p.User
		}
		if p.MemoryMB != nil {
			text += fmt.Sprintf(", %d MB", *p.MemoryMB)
		}
		out = append(out, text+")")
	}
	return out
}

// maxRefusals bounds what one announcement says about lanes.
const maxRefusals = 64

// refusals says for the shapes in use why this machine does not take them now, or never can.
func (w *Worker) refusals(m *queue.Machine, now time.Time) {
	for _, l := range w.cfg.Queue.Lanes() {
		if len(m.Refusals)+len(m.Never) >= maxRefusals {
			return
		}
		id := string(l.Lane.Shape)
		if !w.mayTake(l.Shape.Requirements) {
			m.Refusals[id] = "is finding out which GPUs its frameworks see"
		} else if err := w.pool.CanEver(l.Shape.Requirements); err != nil {
			m.Never[id] = err.Error()
		} else if _, err := w.pool.Room(l.Shape.Requirements, now); err != nil {
			m.Refusals[id] = err.Error()
			if r, ok := gpuslots.AsRefusal(err); ok {
				m.Reasons[id] = string(r.Reason)
			}
		}
	}
}
