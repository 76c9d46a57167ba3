package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthq/berth/examples"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/submit"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/detect"
)

// limit is how long the whole show may take; it ends far earlier by itself.
const limit = 55 * time.Second

// simulated is what stands in for GPUs where there are none.
const simulated = "sim:2x24Gi"

// stage is the demonstration's world: everything in one temporary folder.
type stage struct {
	env  cli.Env
	dir  string
	out  io.Writer
	term screen.Terminal
}

// Run shows it and returns nil when every job did what it should.
func Run(ctx context.Context, env cli.Env) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return fmt.Errorf("a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(filepath.Join(dir, "examples"), examples.Specs); err != nil {
		return fmt.Errorf("the examples: %w", err)
	}
	s := &stage{dir: dir, out: env.Stdout, term: env.Screen(), env: env}
	s.env.Environ = append(withoutBerth(env.Environ), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "XDG_STATE_HOME="+dir)
	end, err := s.up(ctx, s.chooseSource(ctx))
	if err != nil {
		return err
	}
	return errors.Join(s.show(ctx), end())
}

// withoutBerth keeps a Berth that this person uses already out of the show.
func withoutBerth(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "BERTH_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// chooseSource takes the real GPUs if NVML finds any, and says which it is.
func (s *stage) chooseSource(ctx context.Context) string {
	devices, err := realGPUs(ctx, s.env.Now)
	if err != nil || len(devices) == 0 {
		s.say("NVML finds no GPU here: two simulated cards of 24 GiB stand in. Their gauges follow the real processes on them.\n")
		return simulated
	}
	s.say("NVML finds %s, the first a %s with %s: the jobs run on real GPUs.\n", screen.Plural(len(devices), "GPU"), devices[0].Name,
		screen.Memory(devices[0].MemoryTotalMB))
	return "nvml"
}

func realGPUs(ctx context.Context, now func() time.Time) ([]telemetry.Device, error) {
	src, err := detect.Detect(ctx, "nvml", detect.Options{Now: now})
	if err != nil {
		return nil, err
	}
	devices, err := src.Devices(ctx)
	return devices, errors.Join(err, src.Close())
}

// show types the commands, one after the other.
func (s *stage) show(ctx context.Context) error {
	steps := [][]string{
		{"berth", "gpus"},
		{"submit", "-f", "hello.yaml", "--follow", "-q"},
		{"submit", "-f", "gpu.yaml", "--follow", "-q"},
		{"submit", "-f", "array.yaml", "--follow", "-q"},
		{"submit", "-f", "pipeline.yaml", "--follow", "-q"},
		{"submit", "-f", "training.yaml", "--follow", "-v"},
		{"berth", "results"},
	}
	for _, step := range steps {
		if err := s.command(ctx, step); err != nil {
			return err
		}
	}
	return s.result(ctx)
}

// command prints a command as a person would type it and runs it.
func (s *stage) command(ctx context.Context, words []string) error {
	fmt.Fprintf(s.out, "\n%s %s\n", s.term.Paint(screen.Dim, "$"), s.term.Paint(screen.Bold, strings.Join(words, " ")))
	env := s.env
	env.Args, env.Stderr, env.Dir = words[1:], s.out, filepath.Join(s.dir, "examples")
	root := submit.Root
	if words[0] == "berth" {
		root = operator.Root
	}
	if code := cli.Execute(ctx, root(env), env); code != 0 {
		return fmt.Errorf("%s ended with %d", strings.Join(words, " "), code)
	}
	return nil
}

// result shows the followed job's message as any subscriber gets it.
func (s *stage) result(ctx context.Context) error {
	s.say("\nThe same as a message on berth.results.>, for any NATS client:")
	return s.command(ctx, []string{"berth", "results", "@last", "-o", "jsonl"})
}

func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }
