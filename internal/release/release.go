package release

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/internal/cli/submit"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/internal/service"
)

// commands are the programs of a release.
func commands() []*cobra.Command {
	env := cli.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	return []*cobra.Command{operator.Root(env), submit.Root(env), worker.Root(env)}
}

// Write puts the files into dir. made is the moment that man pages show: of the release, so that two builds are alike.
func Write(dir, version string, made time.Time) error {
	for _, cmd := range commands() {
		if err := manual(cmd, filepath.Join(dir, "man", "man1"), version, made); err != nil {
			return fmt.Errorf("man pages of %s: %w", cmd.Name(), err)
		}
		if err := completions(cmd, filepath.Join(dir, "completions")); err != nil {
			return fmt.Errorf("completions of %s: %w", cmd.Name(), err)
		}
	}
	return units(filepath.Join(dir, "systemd"))
}

func manual(cmd *cobra.Command, dir, version string, made time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // everybody reads them
		return err
	}
	cmd.DisableAutoGenTag = true
	made = made.UTC()
	return doc.GenManTree(cmd, &doc.GenManHeader{Section: "1", Date: &made, Source: "Berth " + version, Manual: "Berth"}, dir)
}

func completions(cmd *cobra.Command, dir string) error {
	for shell, generate := range map[string]func(io.Writer) error{
		"bash/" + cmd.Name():           func(w io.Writer) error { return cmd.GenBashCompletionV2(w, true) },
		"zsh/_" + cmd.Name():           cmd.GenZshCompletion,
		"fish/" + cmd.Name() + ".fish": func(w io.Writer) error { return cmd.GenFishCompletion(w, true) },
	} {
		var text strings.Builder
		if err := generate(&text); err != nil {
			return err
		}
		if err := put(filepath.Join(dir, shell), text.String()); err != nil {
			return err
		}
	}
	return nil
}

// units are those that worker install and berth up --install write, for who installs by other means.
func units(dir string) error {
	for _, u := range []service.Unit{
		{Name: "berth-worker", Description: "Berth worker: runs jobs on this machine's GPUs", Again: "make release", Exec: []string{"/usr/local/bin/worker"}},
		{Name: "berth", Description: "Berth: broker, worker and dashboard of this machine", Again: "make release", Exec: []string{"/usr/local/bin/berth", "up"}},
	} {
		u.System, u.EnvFile = true, "/etc/berth/worker.env"
		if err := put(filepath.Join(dir, u.Name+".service"), u.Text()); err != nil {
			return err
		}
	}
	return nil
}

func put(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // everybody reads them
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // everybody reads them
}
