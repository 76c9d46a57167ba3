package release

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func written(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := Write(dir, "v1.2.3", time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Each verb that --help names has a man page; twice the same bytes.
func TestWhatAReleaseHolds(t *testing.T) {
	t.Parallel()
	files, again := written(t), written(t)
	for _, root := range commands() {
		for _, cmd := range append(root.Commands(), root) {
			page := "man/man1/" + strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
			if cmd.IsAvailableCommand() && !strings.Contains(files[page], cmd.Short) {
				t.Errorf("%s is missing, or does not say %q", page, cmd.Short)
			}
		}
	}
	for _, name := range []string{"completions/bash/submit", "completions/zsh/_berth", "completions/fish/worker.fish", "systemd/berth.service", "systemd/berth-worker.service"} {
		if files[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if len(files) != len(again) {
		t.Errorf("%d files, then %d", len(files), len(again))
	}
	for name, text := range files {
		if again[name] != text {
			t.Errorf("%s differs from one time to the next", name)
		}
	}
}

// Every verb that does something shows how it is typed.
func TestEveryCommandHasExamples(t *testing.T) {
	t.Parallel()
	seen := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" || cmd.Name() == "help" || cmd.Hidden {
			return
		}
		if seen++; cmd.Runnable() && !cmd.HasSubCommands() && strings.TrimSpace(cmd.Example) == "" {
			t.Errorf("%s --help has no example", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	for _, root := range commands() {
		look(root)
	}
	if seen < 40 {
		t.Errorf("only %d commands were looked at", seen)
	}
}

// One command builds the tarball, and twice the same.
func TestReleaseIsReproducible(t *testing.T) {
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("builds everything twice; set BERTH_LONG=1 (make test-all)")
	}
	t.Parallel()
	sums := make([][]byte, 2)
	for i := range sums {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "../../deploy/release.sh", "v0.0.0-test", dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("release.sh: %v\n%s", err, out)
		}
		var err error
		if sums[i], err = os.ReadFile(filepath.Join(dir, "SHA256SUMS")); err != nil {
			t.Fatal(err)
		}
		check := exec.CommandContext(t.Context(), "sha256sum", "-c", "SHA256SUMS")
		check.Dir = dir
		if out, err := check.CombinedOutput(); err != nil {
			t.Fatalf("sha256sum -c: %v\n%s", err, out)
		}
		tarball, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
		if err != nil || len(tarball) != 1 {
			t.Fatalf("%v, %v", tarball, err)
		}
		list, err := exec.CommandContext(t.Context(), "tar", "-tzf", tarball[0]).Output()
		if err != nil || !bytes.Contains(list, []byte("/schema/result.json\n")) {
			t.Errorf("the tarball has no schema/result.json (%v):\n%s", err, list)
		}
	}
	if !bytes.Equal(sums[0], sums[1]) {
		t.Errorf("two builds differ:\n%s%s", sums[0], sums[1])
	}
}
