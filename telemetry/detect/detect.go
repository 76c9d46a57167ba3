package detect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/nvml"
	_ "github.com/berthq/berth/telemetry/nvml/probe" // so that this program can be the probe
	"github.com/berthq/berth/telemetry/sim"
	"github.com/berthq/berth/telemetry/smi"
)

// Options are what sources need. All may be left empty.
type Options struct {
	Holders func() map[string][]int // sim: which processes hold which card, by UUID
	Seed    string                  // sim: names the cards when the file does not; the machine's name
	Library string                  // nvml: path of libnvidia-ml.so.1
	SMI     string                  // path of nvidia-smi
	Env     []string                // added to the environment of probe and nvidia-smi

	Now    func() time.Time
	Logger *slog.Logger
}

// ErrSetting is a setting that names no source.
var ErrSetting = errors.New("unknown GPU source")

// Detect opens the source that the setting names. Only "auto" (or "") makes do with less: without any GPU it is
// telemetry.None, and the log says what was tried.
func Detect(ctx context.Context, setting string, opts Options) (telemetry.Source, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	kind, rest, _ := strings.Cut(setting, ":")
	switch {
	case setting == "" || setting == "auto":
		return auto(ctx, opts), nil
	case setting == "nvml":
		return opened(openNVML(ctx, opts))
	case setting == "nvidia-smi":
		return opened(openSMI(ctx, opts))
	case setting == "none":
		return telemetry.NewNone("no GPU source by setting"), nil
	case kind == "sim" && rest != "":
		return openSim(rest, opts)
	}
	return nil, fmt.Errorf("%w %q: want auto, nvml, nvidia-smi, sim:4x24Gi, sim:FILE.yaml or none", ErrSetting, setting)
}

func auto(ctx context.Context, opts Options) telemetry.Source {
	first, err := openNVML(ctx, opts)
	if err == nil {
		return first
	}
	why := fmt.Sprintf("NVML: %v", err)
	if !errors.Is(err, nvml.ErrStuck) { // what hangs the library hangs nvidia-smi too
		second, err := openSMI(ctx, opts)
		if err == nil {
			opts.Logger.Warn("gpus are read with nvidia-smi, which costs more and tells less", "err", why)
			return second
		}
		why += fmt.Sprintf("; nvidia-smi: %v", err)
	}
	opts.Logger.Warn("no gpu found: cpu-only jobs still run", "err", why)
	return telemetry.NewNone(why)
}

func openNVML(ctx context.Context, opts Options) (*nvml.Source, error) {
	return nvml.Open(ctx, nvml.Options{Library: opts.Library, Env: opts.Env, Now: opts.Now, Logger: opts.Logger})
}

func openSMI(ctx context.Context, opts Options) (*smi.Source, error) {
	return smi.Open(ctx, smi.Options{Path: opts.SMI, Env: opts.Env, Now: opts.Now, Logger: opts.Logger})
}

func openSim(setting string, opts Options) (telemetry.Source, error) {
	config, err := sim.Parse(setting)
	if err != nil {
		return nil, err
	}
	if config.Seed == "" {
		config.Seed = opts.Seed
	}
	config.Now, config.Logger = opts.Now, opts.Logger
	return opened(sim.New(config, opts.Holders))
}

// opened keeps a nil pointer out of the interface.
func opened[S telemetry.Source](s S, err error) (telemetry.Source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
