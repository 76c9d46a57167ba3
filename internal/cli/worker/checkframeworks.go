package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/checkup"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/frameworks"
)

// checkFrameworks asks every interpreter which GPUs its frameworks see, JAX too: who checks wants to know, and waits.
func checkFrameworks(ctx context.Context, w config.Worker, env cli.Env, devices []telemetry.Device) []checkup.Finding {
	var findings []checkup.Finding
	for i, p := range probers(w, env, slog.New(slog.DiscardHandler)) {
		r, err := p.Probe(ctx, devices, frameworks.All()...)
		if err != nil {
			findings = append(findings, checkup.Bad("Python", checkup.Half, err.Error(),
				"name an interpreter or virtual environment with --python ("+w.Python[i]+" is set), or --python none; jobs that require a framework do not run here"))
			continue
		}
		findings = append(findings, checkup.Finding{What: "Python", Verdict: checkup.Works, Found: frameworksText(r, len(devices))})
		for _, text := range frameworks.Missing(devices, r) {
			findings = append(findings, checkup.Bad("Python", checkup.Half, text, "jobs that require it are kept away from the GPUs it does not see"))
		}
	}
	return findings
}

func frameworksText(r frameworks.Report, gpus int) string {
	text := fmt.Sprintf("%s, Python %s", r.Interpreter, r.Python)
	if len(r.Installed) == 0 {
		return text + ": no GPU framework installed"
	}
	var parts []string
	for _, name := range r.Installed {
		seen, asked := r.Frameworks[name]
		if asked && seen.Err == "" {
			parts = append(parts, fmt.Sprintf("%s %s sees %d of %d", name, seen.Version, len(seen.UUIDs), gpus))
		} else {
			parts = append(parts, name)
		}
	}
	return text + ": " + strings.Join(parts, ", ")
}
