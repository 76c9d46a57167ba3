package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/checkup"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/detect"
	"github.com/berthq/berth/worker"
)

func newCheck(g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "say what works on this machine and what to do about the rest",
		Example: "  worker check\n  worker check -o json | jq .",
		Args:    cli.Takes(0, 0, ""),
	}
	settings := Bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, _, err := settings.Load(g.Env())
		if err != nil {
			return err
		}
		ctx, stop := g.Env().Interruptible(cmd.Context())
		defer stop()
		return checkup.Report(g, check(ctx, g, w))
	}
	return cmd
}

func check(ctx context.Context, g *cli.Globals, w config.Worker) []checkup.Finding {
	gpus, devices := checkGPUs(ctx, w, g.Env())
	findings := append([]checkup.Finding{gpus}, checkFrameworks(ctx, w, g.Env(), devices)...)
	findings = append(findings, checkStore(w)...)
	findings = append(findings, checkLocks(w), checkUsers(w), checkContainers(ctx, w, devices))
	return append(findings, checkBroker(ctx, g)...)
}

func checkGPUs(ctx context.Context, w config.Worker, env cli.Env) (checkup.Finding, []telemetry.Device) {
	f := checkup.Finding{What: "GPUs"}
	src, err := detect.Detect(ctx, w.GPUSource, detect.Options{Seed: w.Name, Now: env.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return checkup.Bad(f.What, checkup.Fails, err.Error(), "choose another --gpu-source, or auto"), nil
	}
	defer func() { _ = src.Close() }() // nothing was done with it that could be lost
	snap, err := src.Snapshot(ctx)
	switch {
	case err != nil:
		return checkup.Bad(f.What, checkup.Half, err.Error(), "nvidia-smi shows whether the driver answers; jobs without a GPU still run"), nil
	case len(snap.Devices) == 0:
		return checkup.Bad(f.What, checkup.Half, "none found: "+snap.Err, "install the NVIDIA driver, or try --gpu-source sim:4x24Gi; jobs without a GPU still run"), nil
	}
	f.Verdict, f.Found = checkup.Works, devicesText(src.Name(), snap)
	if src.Name() == "sim" {
		return f, nil // no framework could see what is simulated
	}
	return f, snap.Devices
}

func devicesText(source string, snap telemetry.Snapshot) string {
	first := snap.Devices[0]
	text := fmt.Sprintf("%s by %s: %s, %s", screen.Plural(len(snap.Devices), "GPU"), source, first.Name, screen.Memory(first.MemoryTotalMB))
	if first.Driver != "" {
		text += ", driver " + first.Driver
	}
	if len(snap.Devices) > 1 {
		text += ", ..."
	}
	return text
}

func checkStore(w config.Worker) []checkup.Finding {
	if err := os.MkdirAll(w.Store, 0o700); err != nil {
		return []checkup.Finding{checkup.Bad("store", checkup.Fails, err.Error(), "choose a folder you may write with --store")}
	}
	found := checkup.Finding{What: "store", Verdict: checkup.Works, Found: w.Store}
	r, err := runner.New(runner.Options{StoreDir: w.Store})
	if err != nil {
		return []checkup.Finding{found, checkup.Bad("isolation", checkup.Fails, err.Error(), "choose another folder with --store")}
	}
	defer func() { _ = r.Close() }() // it started nothing
	return []checkup.Finding{found, isolationFinding(r.Isolation())}
}

// isolationFinding names the level as berth machines does. Where a job's memory has no limit one job can end the others.
func isolationFinding(i runner.Isolation) checkup.Finding {
	found := i.Level + ": " + i.Text
	if slices.Contains(i.Controllers, "memory") {
		return checkup.Finding{What: "isolation", Verdict: checkup.Works, Found: found}
	}
	return checkup.Bad("isolation", checkup.Half, found,
		"jobs run, and their host memory is counted, not limited: give the worker a cgroup v2 of its own (systemd: Delegate=yes and DelegateSubgroup=worker)")
}

func checkUsers(w config.Worker) checkup.Finding {
	f := checkup.Finding{What: "users", Verdict: checkup.Works}
	var users *worker.UserMap
	if w.Users != "" {
		var err error
		if users, err = worker.ReadUserMap(w.Users); err != nil {
			return checkup.Bad(f.What, checkup.Fails, err.Error(), "each line is USER = ACCOUNT; docs/users.md")
		}
	}
	if err := worker.CheckRoot(users, w.AllowRoot); err != nil {
		return checkup.Bad(f.What, checkup.Fails, "a worker that is root runs no jobs as root unless told to",
			"--users FILE, or an account of its own for the worker, or --allow-root")
	}
	f.Found = "runs " + worker.RunsAs(users)
	if users != nil && !worker.MayChangeUsers() {
		f.Verdict, f.Do = checkup.Half, "start the worker as root, or take --users away"
	}
	return f
}

func checkLocks(w config.Worker) checkup.Finding {
	dir, err := lockDir(w)
	if err != nil {
		return checkup.Bad("GPU locks", checkup.Fails, err.Error(), "make the folder writable: two workers would give one GPU twice without it")
	}
	probe, err := os.CreateTemp(dir, "check-*")
	if err != nil {
		return checkup.Bad("GPU locks", checkup.Fails, err.Error(), "chmod 0777 "+dir+": every worker of this machine locks GPUs there")
	}
	err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	if err != nil {
		return checkup.Bad("GPU locks", checkup.Fails, err.Error(), "chmod 0777 "+dir)
	}
	return checkup.Finding{What: "GPU locks", Verdict: checkup.Works, Found: dir}
}

func checkBroker(ctx context.Context, g *cli.Globals) []checkup.Finding {
	to, _, err := g.Client()
	if err != nil {
		return []checkup.Finding{checkup.Bad("broker", checkup.Fails, err.Error(), "see worker --config-print")}
	}
	nc, err := queue.Connect(ctx, to)
	if err != nil {
		return []checkup.Finding{checkup.Bad("broker", checkup.Fails, err.Error(), "berth join, typed where the broker runs, prints what this machine needs")}
	}
	defer nc.Close()
	q, err := queue.OpenClient(ctx, nc, queue.Options{Now: g.Env().Now})
	if err != nil {
		return []checkup.Finding{checkup.Bad("broker", checkup.Fails, err.Error(), "the server needs JetStream: nats-server -js, or berth up")}
	}
	defer q.Close()
	rtt, err := nc.RTT()
	if err != nil {
		return []checkup.Finding{checkup.Bad("broker", checkup.Fails, err.Error(), "is the network between here and there well?")}
	}
	found := checkup.Finding{What: "broker", Verdict: checkup.Works, Found: fmt.Sprintf("%s, answers in %s", nc.ConnectedUrlRedacted(), rtt.Round(10*time.Microsecond))}
	return []checkup.Finding{found, checkClock(ctx, nc, g.Env().Now)}
}

func checkClock(ctx context.Context, nc *nats.Conn, now func() time.Time) checkup.Finding {
	js, err := jetstream.New(nc)
	if err == nil {
		var jobs jetstream.Stream
		before := now()
		if jobs, err = js.Stream(ctx, queue.StreamJobs); err == nil {
			after := now()
			middle := before.Add(after.Sub(before) / 2)
			return checkup.Clock("clock", "this machine's clock", jobs.CachedInfo().TimeStamp.Sub(middle))
		}
	}
	return checkup.Finding{What: "clock", Verdict: checkup.Half, Found: err.Error()}
}
