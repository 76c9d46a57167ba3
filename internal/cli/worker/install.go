package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/internal/service"
)

// Installation is how a service is written; worker install and berth up --install share it.
type Installation struct {
	Print bool
	user  bool
	now   bool
	root  string
}

// Bind adds the flags of an installation to a command.
func (i *Installation) Bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&i.Print, "print", false, "show the files of the service, write nothing")
	f.BoolVar(&i.user, "user", false, "a service of yours (systemctl --user), as it is for who is not root")
	f.BoolVar(&i.now, "now", false, "start the service, and with each start of the machine")
	f.StringVar(&i.root, "root", "", "write below `DIR`, an image of a machine")
}

func newInstall(g *cli.Globals) *cobra.Command {
	var to Installation
	cmd := &cobra.Command{
		Use:   "install [worker's flags]",
		Short: "make the worker a service of systemd",
		Long: "Write a systemd unit for the worker and an environment file (mode 0600) with its settings and its way to the broker.\n" +
			"What is given here as flags is written there. Runs go on while the service stops and starts.",
		Example: "  sudo worker install --users /etc/berth/users --now\n  worker install --gpus 0-1 --print\n  worker install --user --now",
		Args:    cli.Takes(0, 0, ""),
	}
	cmd.Flags().SortFlags = false
	to.Bind(cmd)
	settings := Bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, from, err := settings.Load(g.Env())
		if err != nil {
			return err
		}
		if to.system() {
			if err := CheckRoot(w); err != nil {
				return err
			}
		}
		client, _, err := g.Client()
		if err != nil {
			return err
		}
		return to.Install(cmd.Context(), g, Service{Name: "berth-worker", Description: "Berth worker: runs jobs on this machine's GPUs",
			Again: "worker install", Args: argsOf(cmd.Parent()), Settings: from,
			Client: config.Client{Server: client.URL, Creds: client.Creds, Token: client.Token}})
	}
	return cmd
}

func newUninstall(g *cli.Globals) *cobra.Command {
	var from Installation
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "take the worker's service away; what runs is left to its shims",
		Example: "  sudo worker uninstall\n  worker uninstall --user",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.Uninstall(cmd.Context(), g, "berth-worker")
		},
	}
	cmd.Flags().BoolVar(&from.user, "user", false, "the service of yours")
	cmd.Flags().StringVar(&from.root, "root", "", "below `DIR`, an image of a machine")
	return cmd
}

// argsOf are the words behind the program that start a command: none for worker, "worker" for berth worker.
func argsOf(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// Service is what is to be installed.
type Service struct {
	Name, Description string
	Again             string   // the command that writes it
	Args              []string // behind the program
	Settings          config.Settings
	Client            config.Client
}

func (i Installation) system() bool { return os.Geteuid() == 0 && !i.user || i.root != "" }

// Install writes the unit and its environment file, or shows them.
func (i Installation) Install(ctx context.Context, g *cli.Globals, s Service) error {
	if i.Print && s.Client.Token != "" {
		s.Client.Token = "hidden" // what is printed gets pasted
	}
	files, err := i.files(ctx, g, s)
	if err != nil {
		return err
	}
	if i.Print {
		for n, f := range files {
			if n > 0 {
				fmt.Fprintln(g.Out())
			}
			fmt.Fprintf(g.Out(), "# %s (mode %04o)\n%s", f.Path, f.Mode, f.Text)
		}
		return nil
	}
	for _, f := range files {
		change, err := f.Write()
		switch {
		case errors.Is(err, fs.ErrPermission):
			return exit.Errorf(exit.Failed, "%w", err).Hinted("as root, or for yourself: --user")
		case err != nil:
			return exit.With(exit.Failed, err)
		case change == service.Changed:
			g.Say("%s %s %s", f.Path, change, f.Old())
		default:
			g.Say("%s %s", f.Path, change)
		}
	}
	if !i.system() {
		g.Say("so that it runs while you are not logged in: loginctl enable-linger")
	}
	if i.now {
		return i.systemctl(ctx, []string{"daemon-reload"}, []string{"enable", s.Name}, []string{"restart", s.Name})
	}
	if i.root == "" {
		g.Say("start it now, and with each start of the machine: %[1]s daemon-reload && %[1]s enable --now %[2]s", i.ctl(), s.Name)
	}
	return nil
}

func (i Installation) files(ctx context.Context, g *cli.Globals, s Service) ([]service.File, error) {
	env := g.Env()
	program, err := os.Executable()
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "where this program is: %w", err)
	}
	dir := config.Folder(env.Environ, i.system())
	if dir == "" {
		return nil, exit.Errorf(exit.Usage, "there is no home folder for the service: set HOME or XDG_CONFIG_HOME")
	}
	s.Settings.Absolute(env.Dir, "store", "users", "secrets", "container-socket")
	if s.Client.Creds != "" && !filepath.IsAbs(s.Client.Creds) {
		s.Client.Creds = filepath.Join(env.Dir, s.Client.Creds)
	}
	text, err := config.KeyFileText("Settings of "+s.Name+", written by "+s.Again+". After a change: "+i.ctl()+" restart "+s.Name, s.Settings, s.Client)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	unit := service.Unit{Name: s.Name, Description: s.Description, Again: s.Again, Exec: append([]string{program}, s.Args...),
		EnvFile: filepath.Join(dir, "worker.env"), System: i.system(), Version: i.version(ctx)}
	return []service.File{
		{Path: filepath.Join(i.root, unit.EnvFile), Text: text, Mode: 0o600},
		{Path: filepath.Join(i.root, unit.File(filepath.Dir(dir))), Text: unit.Text(), Mode: 0o644},
	}, nil
}

// version is that of the systemd here, 0 where there is none or the files are for another machine.
func (i Installation) version(ctx context.Context) int {
	if i.root != "" {
		return 0
	}
	said, err := exec.CommandContext(ctx, "systemctl", "--version").Output()
	if err != nil {
		return 0
	}
	version, _ := service.ParseVersion(string(said))
	return version
}

// ctl is systemctl as a person types it for this service.
func (i Installation) ctl() string {
	if i.system() {
		return "systemctl"
	}
	return "systemctl --user"
}

func (i Installation) systemctl(ctx context.Context, all ...[]string) error {
	if i.root != "" {
		return exit.Errorf(exit.Usage, "the machine below %s does not run: leave --now out", i.root)
	}
	for _, args := range all {
		words := append(strings.Fields(i.ctl()), args...)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			return exit.Errorf(exit.Failed, "%s: %w\n%s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// Uninstall takes a service away. Its settings stay.
func (i Installation) Uninstall(ctx context.Context, g *cli.Globals, name string) error {
	dir := config.Folder(g.Env().Environ, i.system())
	if dir == "" {
		return exit.Errorf(exit.Usage, "there is no home folder for the service: set HOME or XDG_CONFIG_HOME")
	}
	path := filepath.Join(i.root, service.Unit{Name: name, System: i.system()}.File(filepath.Dir(dir)))
	err := service.Ours(path)
	if err == nil && i.root == "" {
		if err := i.systemctl(ctx, []string{"disable", "--now", name}); err != nil {
			g.Say("%v", err) // without a systemd that answers there is nothing to stop
		}
	}
	if err == nil {
		err = service.Remove(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.Failed, "there is no service at %s", path)
	case err != nil:
		return exit.With(exit.Failed, err)
	}
	g.Say("%s removed; the settings stay in %s", path, filepath.Join(i.root, dir, "worker.env"))
	return nil
}
