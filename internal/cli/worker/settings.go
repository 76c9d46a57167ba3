package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/internal/version"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/detect"
	"github.com/berthq/berth/telemetry/frameworks"
	"github.com/berthq/berth/worker"
)

// Settings are the worker's flags and what they came to.
type Settings struct {
	flags *pflag.FlagSet
	file  string
}

// Bind adds the worker's flags to a command.
func Bind(cmd *cobra.Command) *Settings {
	s := &Settings{flags: cmd.Flags()}
	config.BindWorker(s.flags)
	s.flags.StringVar(&s.file, "config", "", "`FILE` of KEY=VALUE lines (default worker.env in ~/.config/berth or /etc/berth)")
	return s
}

// Load reads flags, environment and file.
func (s *Settings) Load(env cli.Env) (config.Worker, config.Settings, error) {
	file := s.file
	if file == "" {
		file = config.FindWorkerFile(env.Environ)
	}
	w, from, err := config.LoadWorker(config.WorkerSources{
		Flags: s.flags, Environ: env.Environ, File: file, Host: env.Host, Root: os.Geteuid() == 0,
	})
	return w, from, exit.With(exit.Usage, err)
}

// Config makes the worker's own settings of them; queue and OnReady are the caller's to fill in.
func Config(w config.Worker, env cli.Env, log *slog.Logger) (worker.Config, error) {
	locks, err := lockDir(w)
	if err != nil {
		return worker.Config{}, exit.Errorf(exit.Failed, "the folder in which workers of this machine lock GPUs: %w", err)
	}
	var users *worker.UserMap
	if w.Users != "" {
		if users, err = worker.ReadUserMap(w.Users); err != nil {
			return worker.Config{}, exit.With(exit.Usage, err)
		}
	}
	slots, _ := w.Slots.Value()
	reserve, _ := w.ReserveMemory.MB()
	logCap, _ := w.LogCap.MB()
	return worker.Config{
		Machine: w.Name, Version: version.Version, Store: w.Store,
		Frameworks: framework(w, env, log), Containers: containers(w, env), NoRanking: w.NoRanking, RestoreAfter: w.RestoreAfter.Std(), ShrinkFor: w.ShrinkFor.Std(),
		Source: source(w, env, log), SlotsAuto: w.Slots.IsAuto(), GPUs: chosen(w.GPUs), Projects: w.Project,
		Slots: gpuslots.Options{
			SlotsPerGPU: slots, Weights: gpuslots.Weights{Memory: w.Weights.Memory, Idle: w.Weights.Idle},
			MaxUtil: max(w.MaxUtil, leastUtil), MinScore: w.MinScore, Placement: gpuslots.Placement(w.Placement),
			Foreign: gpuslots.ForeignPolicy(w.Foreign), ForeignIgnore: w.ForeignIgnore, ReserveMemoryMB: reserve,
			Settle: orNone(w.Settle.Std()), Warmup: orNone(w.Warmup.Std()),
			LockDir: locks, Labels: w.Label, CPUs: cpus(), MemoryMB: memoryMB(),
		},
		Environ: runEnviron(env.Environ), Secrets: w.Secrets, Users: users, AllowRoot: w.AllowRoot, OpenGPUs: w.OpenGPUs, DrainFor: w.DrainTimeout.Std(),
		LogCap: logCap << 20, MaxProcesses: w.MaxProcesses, Logger: log, Now: env.Now,
	}, nil
}

// leastUtil is what --max-util 0 means: the pool reads 0 as its default.
const leastUtil = 1e-9

// orNone passes on that a time was set to nothing; the pool reads 0 as its default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func chosen(g config.GPUSelection) func(telemetry.Device) bool {
	if g.All() {
		return nil
	}
	return func(d telemetry.Device) bool { return g.Has(d.Index, d.UUID) }
}

// runEnviron is what runs start from: the worker's environment without its settings and tokens.
func runEnviron(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "BERTH_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

func source(w config.Worker, env cli.Env, log *slog.Logger) worker.OpenSource {
	return func(ctx context.Context, holders func() map[string][]int) (telemetry.Source, error) {
		src, err := detect.Detect(ctx, w.GPUSource, detect.Options{Holders: holders, Seed: w.Name, Now: env.Now, Logger: log})
		if err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("--gpu-source: %w", err))
		}
		return src, nil
	}
}

// framework are the interpreters to ask, each with what it has answered before in the store.
func framework(w config.Worker, env cli.Env, log *slog.Logger) []worker.FrameworkProbe {
	var probes []worker.FrameworkProbe
	for _, p := range probers(w, env, log) {
		probes = append(probes, p.Probe)
	}
	return probes
}

func probers(w config.Worker, env cli.Env, log *slog.Logger) []*frameworks.Prober {
	var all []*frameworks.Prober
	for _, python := range w.Python {
		if python == config.NoPython {
			continue
		}
		all = append(all, frameworks.New(frameworks.Options{
			Interpreter: python, Environ: runEnviron(env.Environ), Cache: filepath.Join(w.Store, "frameworks.json"),
			Now: env.Now, Logger: log,
		}))
	}
	return all
}

// QueueOptions are the queue's settings for a worker.
func QueueOptions(w config.Worker, env cli.Env, log *slog.Logger) queue.Options {
	return queue.Options{ClaimTTL: w.ClaimTTL.Std(), Logger: log, Now: env.Now}
}
