package operator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/internal/cli/checkup"
	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/queue"
)

const (
	slowRTT      = 100 * time.Millisecond
	nearlyFull   = 0.9
	longWait     = 24 * time.Hour // of a job that nothing else is wrong with
	namedAtMost  = 5
	undispatched = 30 * time.Second // a clerk puts a job on a lane in milliseconds
)

// diagnose says how the queue is, from what was seen alone.
func diagnose(p patient) []checkup.Finding {
	all := []checkup.Finding{diagnoseBroker(p.health), diagnoseStreams(p.health)}
	all = append(all, diagnoseStore(p.health)...)
	all = append(all, diagnoseClocks(p), diagnoseVersions(p))
	all = append(all, diagnoseMachines(p)...)
	all = append(all, diagnoseGPUs(p)...)
	all = append(all, diagnoseClerk(p))
	return append(all, diagnoseJobs(p)...)
}

func diagnoseBroker(h queue.Health) checkup.Finding {
	f := checkup.Finding{What: "broker", Verdict: checkup.Works,
		Found: fmt.Sprintf("nats-server %s at %s answers in %s", h.Version, h.Server, h.RTT.Round(10*time.Microsecond))}
	if h.RTT > slowRTT {
		f.Verdict, f.Do = checkup.Half, "look at the network between here and there: each job needs a dozen such answers"
	}
	return f
}

func diagnoseStreams(h queue.Health) checkup.Finding {
	var missing, leaderless, behind []string
	for _, s := range h.Streams {
		switch {
		case s.Missing:
			missing = append(missing, s.Name)
		case s.Cluster && s.Leader == "":
			leaderless = append(leaderless, s.Name)
		case len(s.Behind) > 0:
			behind = append(behind, s.Name+" ("+strings.Join(s.Behind, ", ")+")")
		}
	}
	f := checkup.Finding{What: "streams", Verdict: checkup.Works, Found: fmt.Sprintf("%d, all there", len(h.Streams))}
	switch {
	case len(missing) > 0:
		f.Verdict, f.Found = checkup.Fails, "missing: "+some(missing)
		f.Do = "any worker or `berth up` with the right to make streams makes them; if jobs were lost with them, look for a backup of the store first"
	case len(leaderless) > 0:
		f.Verdict, f.Found = checkup.Fails, "without a leader: "+some(leaderless)
		f.Do = "more than half of the servers must be up: nats server report jetstream"
	case len(behind) > 0:
		f.Verdict, f.Found, f.Do = checkup.Half, "copies that lag or are down: "+some(behind), "look at those servers: nats server report jetstream"
	}
	return f
}

// diagnoseStore speaks of the store where it has a limit.
func diagnoseStore(h queue.Health) []checkup.Finding {
	if h.Store.Limit <= 0 {
		return nil
	}
	used := float64(h.Store.Used) / float64(h.Store.Limit)
	f := checkup.Finding{What: "store", Verdict: checkup.Works,
		Found: fmt.Sprintf("%.0f %% of %s used", used*100, screen.Memory(h.Store.Limit>>20))}
	if used > nearlyFull {
		f.Verdict = checkup.Half
		f.Do = "give the server more room (jetstream max_file_store), or let logs go earlier: nats stream edit " + queue.StreamLogs + " --max-age 7d"
	}
	return []checkup.Finding{f}
}

func diagnoseClocks(p patient) checkup.Finding {
	worst, whose := p.health.Asked.Sub(p.health.Clock), "this machine's clock"
	for _, name := range slices.Sorted(maps.Keys(p.health.Skew)) {
		if apart := p.health.Skew[name]; apart.Abs() > worst.Abs() {
			worst, whose = apart, "the clock of "+name
		}
	}
	f := checkup.Clock("clocks", whose, worst)
	if f.Verdict == checkup.Works {
		f.Found = "all agree with the broker's"
	}
	return f
}

func diagnoseVersions(p patient) checkup.Finding {
	with := map[string][]string{}
	for _, m := range p.machines {
		with[m.Version] = append(with[m.Version], m.Name)
	}
	f := checkup.Finding{What: "versions", Verdict: checkup.Works, Found: "this is " + p.version + ", and so are the machines"}
	if len(p.machines) == 0 {
		f.Found = "this is " + p.version
		return f
	}
	delete(with, p.version)
	if len(with) == 0 {
		return f
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(with)) {
		parts = append(parts, v+" on "+some(with[v]))
	}
	f.Verdict, f.Found = checkup.Half, "this is "+p.version+"; "+strings.Join(parts, "; ")
	f.Do = "they work together; a restart of those workers upgrades them and leaves what runs alone"
	return f
}

func diagnoseMachines(p patient) []checkup.Finding {
	if len(p.machines) == 0 {
		return []checkup.Finding{{What: "machines", Verdict: checkup.Fails, Found: "no worker is connected: nothing runs",
			Do: "start one: berth up on this machine; berth join prints the line for another"}}
	}
	var draining, degraded []string
	var all []checkup.Finding
	for _, m := range p.machines {
		if m.Draining {
			draining = append(draining, m.Name)
		}
		if stand(m).Degraded {
			degraded = append(degraded, m.Name)
		}
		for _, w := range m.Warnings {
			all = append(all, checkup.Finding{What: m.Name, Verdict: checkup.Half, Found: w, Do: "worker check, typed there, says more"})
		}
	}
	f := checkup.Finding{What: "machines", Verdict: checkup.Works, Found: fmt.Sprintf("%d connected", len(p.machines))}
	switch {
	case len(draining) == len(p.machines):
		f.Verdict, f.Found, f.Do = checkup.Fails, "all of them drain: nothing new starts", "berth undrain "+strings.Join(draining, " ")
	case len(draining) > 0:
		f.Verdict, f.Found, f.Do = checkup.Half, f.Found+"; draining: "+some(draining), "berth undrain "+strings.Join(draining, " ")
	}
	if len(degraded) > 0 {
		all = append(all, checkup.Finding{What: "telemetry", Verdict: checkup.Half, Found: "nothing is known of the GPUs of " + some(degraded),
			Do: "worker check, typed there, says whether the driver answers"})
	}
	return append([]checkup.Finding{f}, all...)
}

// diagnoseGPUs names the cards that take no work, and why.
func diagnoseGPUs(p patient) []checkup.Finding {
	var all []checkup.Finding
	count := 0
	for _, m := range p.machines {
		for _, g := range m.GPUs {
			count++
			do, sick := cure(m, g)
			if !sick {
				continue
			}
			all = append(all, checkup.Finding{What: "GPU", Verdict: checkup.Half, Do: do,
				Found: fmt.Sprintf("%s GPU %d (%s) is %s: %s", m.Name, g.Index, g.Name, g.State, cmp.Or(g.Why, "no reason is known"))})
		}
	}
	if len(all) == 0 && count > 0 {
		all = []checkup.Finding{{What: "GPUs", Verdict: checkup.Works, Found: fmt.Sprintf("%d, all in service", count)}}
	}
	return all
}

// cure says what to do about a GPU that is out of service; those that are busy or with strangers are well.
func cure(m queue.Machine, g queue.GPU) (do string, sick bool) {
	switch g.State {
	case "quarantined":
		return "it comes back after a probe that goes well; at once: berth gpus restore " + g.UUID + " --reason ...", true
	case "unreadable":
		return "nvidia-smi on " + m.Name + " must answer; a driver that hangs needs a reboot (berth drain " + m.Name + " first)", true
	case "dirty":
		return "a process of an ended run still holds memory on it: berth gpus shows which, kill it on " + m.Name, true
	}
	return "", false
}

func diagnoseClerk(p patient) checkup.Finding {
	f := checkup.Finding{What: "dispatch", Verdict: checkup.Works, Found: "every job is on its lane"}
	switch {
	case p.health.Undispatched == 0:
	case len(p.machines) == 0:
		f.Verdict, f.Found = checkup.Half, screen.Plural(int(p.health.Undispatched), "job")+" will be put on lanes by the first worker"
	case slices.ContainsFunc(p.waiting, func(v queue.JobView) bool { return p.now.Sub(v.QueuedAt) < undispatched }):
		f.Found = screen.Plural(int(p.health.Undispatched), "job") + " on the way to a lane"
	default:
		f.Verdict, f.Found = checkup.Fails, screen.Plural(int(p.health.Undispatched), "job")+" on no lane, and no new ones: no worker dispatches"
		f.Do = "look for job_not_dispatched and service_interrupted in the workers' logs"
	}
	return f
}

// diagnoseJobs names those that wait for what will not come by itself.
func diagnoseJobs(p patient) []checkup.Finding {
	never := p.named(func(v queue.JobView) bool { return v.Reason == explain.NeverFits })
	held := p.named(func(v queue.JobView) bool { return v.Reason == explain.Held || v.State == "held" })
	old := p.named(func(v queue.JobView) bool {
		return v.Reason != explain.NeverFits && v.Reason != explain.Held && v.Reason != explain.BeginTime && p.now.Sub(v.QueuedAt) > longWait
	})
	var all []checkup.Finding
	add := func(ids []string, found, do string) {
		if len(ids) > 0 {
			all = append(all, checkup.Finding{What: "jobs", Verdict: checkup.Half, Found: fmt.Sprintf(found, some(ids)), Do: fmt.Sprintf(do, ids[0])})
		}
	}
	add(never, "no machine could ever run %s", "berth explain %s says what is missing; berth cancel, or start a machine that has it")
	add(held, "held until somebody lets them go: %s", "berth release %s")
	add(old, "waiting for more than a day: %s", "berth explain %s")
	if p.dead > 0 {
		all = append(all, checkup.Finding{What: "dead", Verdict: checkup.Half, Found: screen.Plural(p.dead, "job") + " that the system could not run",
			Do: "berth dead ls; then berth dead retry or drop"})
	}
	if len(all) == 0 {
		text := "none waits for what will not come"
		if p.more {
			text = fmt.Sprintf("of the newest %d that wait none does so for what will not come", len(p.waiting))
		}
		all = []checkup.Finding{{What: "jobs", Verdict: checkup.Works, Found: text}}
	}
	return all
}

func (p patient) named(is func(queue.JobView) bool) []string {
	var ids []string
	for _, v := range p.waiting {
		if is(v) {
			ids = append(ids, v.Ref.String())
		}
	}
	return ids
}

// some names the first few.
func some(names []string) string {
	if more := len(names) - namedAtMost; more > 0 {
		return strings.Join(names[:namedAtMost], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
