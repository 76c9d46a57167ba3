package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/detect"
	"github.com/berthq/berth/worker"
)

// verdict of one line of the check.
type verdict string

const (
	works verdict = "ok"
	half  verdict = "warning" // jobs run, with less
	fails verdict = "fails"   // no job would run
)

// finding is one line of the check: what was looked at, what was found, what to do.
type finding struct {
	What    string  `json:"what"`
	Verdict verdict `json:"verdict"`
	Found   string  `json:"found"`
	Do      string  `json:"do,omitempty"`
}

func newCheck(g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "say what works on this machine and what to do about the rest",
		Args:  cli.Takes(0, 0, ""),
	}
	settings := Bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, _, err := settings.Load(g.Env())
		if err != nil {
			return err
		}
		ctx, stop := g.Env().Interruptible(cmd.Context())
		defer stop()
		findings := check(ctx, g, w)
		if err := printFindings(g, findings); err != nil {
			return err
		}
		for _, f := range findings {
			if f.Verdict == fails {
				return exit.Silent(exit.Failed)
			}
		}
		return nil
	}
	return cmd
}

func check(ctx context.Context, g *cli.Globals, w config.Worker) []finding {
	gpus, devices := checkGPUs(ctx, w, g.Env())
	findings := append([]finding{gpus}, checkFrameworks(ctx, w, g.Env(), devices)...)
	findings = append(findings, checkStore(w)...)
	findings = append(findings, checkLocks(w), checkUsers(w), checkContainers(ctx, w, devices))
	return append(findings, checkBroker(ctx, g)...)
}

func checkGPUs(ctx context.Context, w config.Worker, env cli.Env) (finding, []telemetry.Device) {
	f := finding{What: "GPUs"}
	src, err := detect.Detect(ctx, w.GPUSource, detect.Options{Seed: w.Name, Now: env.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return finding{f.What, fails, err.Error(), "choose another --gpu-source, or auto"}, nil
	}
	defer func() { _ = src.Close() }() // nothing was done with it that could be lost
	snap, err := src.Snapshot(ctx)
	switch {
	case err != nil:
		return finding{f.What, half, err.Error(), "nvidia-smi shows whether the driver answers; jobs without a GPU still run"}, nil
	case len(snap.Devices) == 0:
		return finding{f.What, half, "none found: " + snap.Err, "install the NVIDIA driver, or try --gpu-source sim:4x24Gi; jobs without a GPU still run"}, nil
	}
	f.Verdict, f.Found = works, devicesText(src.Name(), snap)
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

func checkStore(w config.Worker) []finding {
	if err := os.MkdirAll(w.Store, 0o700); err != nil {
		return []finding{{"store", fails, err.Error(), "choose a folder you may write with --store"}}
	}
	found := finding{What: "store", Verdict: works, Found: w.Store}
	r, err := runner.New(runner.Options{StoreDir: w.Store})
	if err != nil {
		return []finding{found, {"isolation", fails, err.Error(), "choose another folder with --store"}}
	}
	defer func() { _ = r.Close() }() // it started nothing
	return []finding{found, {What: "isolation", Verdict: works, Found: r.Isolation().Text}}
}

func checkUsers(w config.Worker) finding {
	f := finding{What: "users", Verdict: works}
	var users *worker.UserMap
	if w.Users != "" {
		var err error
		if users, err = worker.ReadUserMap(w.Users); err != nil {
			return finding{f.What, fails, err.Error(), "each line is USER = ACCOUNT; docs/users.md"}
		}
	}
	f.Found = "runs " + worker.RunsAs(users)
	switch {
	case users == nil && worker.MayChangeUsers():
		f.Verdict, f.Do = half, "give each user an account with --users FILE, or run the worker as an account of its own"
	case users != nil && !worker.MayChangeUsers():
		f.Verdict, f.Do = half, "start the worker as root, or take --users away"
	}
	return f
}

func checkLocks(w config.Worker) finding {
	dir, err := lockDir(w)
	if err != nil {
		return finding{"GPU locks", fails, err.Error(), "make the folder writable: two workers would give one GPU twice without it"}
	}
	probe, err := os.CreateTemp(dir, "check-*")
	if err != nil {
		return finding{"GPU locks", fails, err.Error(), "chmod 0777 " + dir + ": every worker of this machine locks GPUs there"}
	}
	err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	if err != nil {
		return finding{"GPU locks", fails, err.Error(), "chmod 0777 " + dir}
	}
	return finding{What: "GPU locks", Verdict: works, Found: dir}
}

func checkBroker(ctx context.Context, g *cli.Globals) []finding {
	to, _, err := g.Client()
	if err != nil {
		return []finding{{"broker", fails, err.Error(), "see worker --config-print"}}
	}
	nc, err := queue.Connect(ctx, to)
	if err != nil {
		return []finding{{"broker", fails, err.Error(), "berth join, typed where the broker runs, prints what this machine needs"}}
	}
	defer nc.Close()
	q, err := queue.OpenClient(ctx, nc, queue.Options{Now: g.Env().Now})
	if err != nil {
		return []finding{{"broker", fails, err.Error(), "the server needs JetStream: nats-server -js, or berth up"}}
	}
	defer q.Close()
	rtt, err := nc.RTT()
	if err != nil {
		return []finding{{"broker", fails, err.Error(), "is the network between here and there well?"}}
	}
	found := finding{What: "broker", Verdict: works, Found: fmt.Sprintf("%s, answers in %s", nc.ConnectedUrlRedacted(), rtt.Round(10*time.Microsecond))}
	return []finding{found, checkClock(ctx, nc, g.Env().Now)}
}

// clockTolerance is how far apart clocks may be before the times people see are wrong. Nothing rests on it: sessions
// are counted by the broker alone.
const clockTolerance = 2 * time.Second

func checkClock(ctx context.Context, nc *nats.Conn, now func() time.Time) finding {
	f := finding{What: "clock", Verdict: half}
	js, err := jetstream.New(nc)
	if err == nil {
		var jobs jetstream.Stream
		before := now()
		if jobs, err = js.Stream(ctx, queue.StreamJobs); err == nil {
			return judgeClock(f, jobs.CachedInfo().TimeStamp, before, now())
		}
	}
	f.Found = err.Error()
	return f
}

func judgeClock(f finding, broker, before, after time.Time) finding {
	middle := before.Add(after.Sub(before) / 2)
	apart := broker.Sub(middle).Abs()
	if apart > clockTolerance {
		f.Found = fmt.Sprintf("%s apart from the broker's", screen.Span(apart))
		f.Do = "let both machines keep time with NTP (timedatectl set-ntp true): the times people see are wrong"
		return f
	}
	f.Verdict, f.Found = works, "agrees with the broker's"
	return f
}

var verdictColors = map[verdict]screen.Color{works: screen.Green, half: screen.Yellow, fails: screen.Red}

// printFindings shows a person every word, and under what does not work what to do.
func printFindings(g *cli.Globals, findings []finding) error {
	if !g.Output.ForPeople() {
		return cli.Print(g, findingView(), findings)
	}
	const indent = 20
	term := g.Screen()
	width := 0
	if term.Width > 0 {
		width = max(term.Width-indent, 20)
	}
	for _, f := range findings {
		head := term.Paint(verdictColors[f.Verdict], screen.Pad(string(f.Verdict), 7, false)) + "  " + screen.Pad(f.What, 9, false)
		lines := screen.Wrap(screen.Safe(f.Found), width)
		if f.Do != "" {
			lines = append(lines, screen.Wrap("-> "+screen.Safe(f.Do), width)...)
		}
		for _, line := range lines {
			if _, err := fmt.Fprintf(g.Out(), "%s  %s\n", head, line); err != nil {
				return err
			}
			head = strings.Repeat(" ", indent-2)
		}
	}
	return nil
}

func findingView() table.View[finding] {
	text := func(get func(finding) string) func(finding) table.Cell {
		return func(f finding) table.Cell { return table.Text(get(f)) }
	}
	return table.View[finding]{
		Name: func(f finding) string { return f.What },
		Columns: []table.Column[finding]{
			{Field: "what", Cell: text(func(f finding) string { return f.What })},
			{Field: "verdict", Cell: text(func(f finding) string { return string(f.Verdict) })},
			{Field: "found", Cell: text(func(f finding) string { return f.Found })},
			{Field: "do", Cell: text(func(f finding) string { return f.Do })},
		},
	}
}
