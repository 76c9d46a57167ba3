package service_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func unit(system bool) service.Unit {
	return service.Unit{Name: "berth-worker", Description: "Berth worker at 100%", Again: "worker install", Exec: []string{"/bin/sh", "a b", "$HOME", "50%", `q"`},
		EnvFile: "/etc/berth/worker.env", System: system, Version: 252}
}

func TestUnitSaysWhatRunsNeed(t *testing.T) {
	t.Parallel()
	text := unit(true).Text()
	for _, line := range []string{"KillMode=process", "Delegate=yes", "Restart=always", "OOMPolicy=continue", "EnvironmentFile=-/etc/berth/worker.env",
		`ExecStart=/bin/sh "a b" $$HOME 50%% "q\""`, "Description=Berth worker at 100%%", "WantedBy=multi-user.target"} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	for version, want := range map[int]bool{252: false, 253: false, 254: true, 257: true, 0: true} {
		u := unit(false)
		u.Version = version
		if got := strings.Contains(u.Text(), "\nDelegateSubgroup=worker\n"); got != want {
			t.Errorf("systemd %d: DelegateSubgroup %v, want %v", version, got, want)
		}
	}
	if text := unit(false).Text(); !strings.Contains(text, "WantedBy=default.target") || strings.Contains(text, "network-online") {
		t.Errorf("a user's unit:\n%s", text)
	}
}

// systemd itself reads the units and finds nothing wrong.
func TestSystemdReadsTheUnits(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT RUN: systemd-analyze is not here (Debian: systemd), so nobody but this package has read the units")
	}
	said, err := exec.CommandContext(t.Context(), analyze, "--version").Output()
	version, known := service.ParseVersion(string(said))
	if err != nil || !known {
		t.Fatalf("systemd-analyze --version: %q, %v", said, err)
	}
	for _, system := range []bool{true, false} {
		u := unit(system)
		u.Version = version
		file := filepath.Join(t.TempDir(), "berth-worker.service")
		if err := os.WriteFile(file, []byte(u.Text()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), file) {
			t.Errorf("system %v: %v\n%s\n%s", system, err, out, u.Text())
		}
	}
	// The same look finds a key that is misspelt: it does read them.
	file := filepath.Join(t.TempDir(), "berth-worker.service")
	wrong := strings.Replace(unit(true).Text(), "KillMode=process", "KillMood=process", 1)
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
	if !strings.Contains(string(out), "KillMood") {
		t.Errorf("a misspelt key was not noticed: %s", out)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"systemd 252 (252.39-1~deb12u2)\n+PAM": 252, "systemd 257": 257, "": 0, "elogind 252": 0, "systemd x": 0} {
		if got, ok := service.ParseVersion(text); got != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

// What somebody wrote is never lost.
func TestWriteKeepsWhatWasThere(t *testing.T) {
	t.Parallel()
	f := service.File{Path: filepath.Join(t.TempDir(), "sub", "x.env"), Text: "A=1\n", Mode: 0o600}
	for i, step := range []struct {
		text string
		want service.Change
	}{{"A=1\n", service.New}, {"A=1\n", service.Same}, {"A=2\n", service.Changed}} {
		f.Text = step.text
		if got, err := f.Write(); got != step.want || err != nil {
			t.Fatalf("step %d: %q, %v, want %q", i, got, err, step.want)
		}
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if old, err := os.ReadFile(f.Old()); string(old) != "A=1\n" || err != nil {
		t.Errorf("kept %q, %v", old, err)
	}
	if err := service.Remove(f.Path); !errors.Is(err, service.ErrForeign) {
		t.Errorf("Remove of a foreign file: %v", err)
	}
	f.Text = service.Mark + "\n"
	if _, err := f.Write(); err != nil {
		t.Fatal(err)
	}
	if err := service.Remove(f.Path); err != nil {
		t.Error(err)
	}
	if err := service.Remove(f.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove twice: %v", err)
	}
}
