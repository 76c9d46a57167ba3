package operator

import (
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/internal/config"
)

// installFlags mean something beside --install alone.
var installFlags = []string{"print", "user", "now", "root"}

func (f *upFlags) bindInstall(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.install, "install", false, "write a service of systemd that does what is typed here, and end")
	f.service.Bind(cmd)
	for _, name := range installFlags {
		flag := cmd.Flags().Lookup(name)
		flag.Usage = "with --install: " + flag.Usage
	}
}

func (f *upFlags) checkInstall(cmd *cobra.Command) error {
	if f.install && f.demo {
		return exit.Errorf(exit.Usage, "a demonstration is no service: leave --install or --demo out")
	}
	for _, name := range installFlags {
		if !f.install && cmd.Flags().Changed(name) {
			return exit.Errorf(exit.Usage, "--%s means something beside --install alone", name)
		}
	}
	return nil
}

func flagNames(s *pflag.FlagSet) (names []string) {
	s.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// writeService makes a service of berth up: its own flags stand in the unit, the worker's in the environment file.
func (f *upFlags) writeService(cmd *cobra.Command, g *cli.Globals, w config.Worker, from config.Settings, own []string) error {
	if err := worker.CheckRoot(w); err != nil && !f.noWorker {
		return err
	}
	if _, err := f.certificate(); err != nil {
		return err
	}
	args := []string{"up"}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		value := flag.Value.String()
		if (flag.Name == "tls-cert" || flag.Name == "tls-key") && !filepath.IsAbs(value) {
			value = filepath.Join(g.Env().Dir, value)
		}
		if slices.Contains(own, flag.Name) {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return f.service.Install(cmd.Context(), g, worker.Service{Name: "berth", Description: "Berth: broker, worker and dashboard of this machine",
		Again: "berth up --install", Args: args, Settings: from})
}
