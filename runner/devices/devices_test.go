package devices_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/devices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// group makes a v2 group, or says why the test did not run.
func group(t *testing.T) cgroup.Group {
	t.Helper()
	tree := cgroup.Probe(func(string) error { return nil })
	if err := devices.Probe(tree.Root); err != nil {
		t.Skipf("NOT RUN: this machine cannot close GPUs: %v", err)
	}
	g, err := tree.Create("test-" + uuid.NewString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(), g.Remove()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// node makes a device file. Nothing is behind it here: opening it answers "no such device", once it is allowed.
func node(t *testing.T, minor int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("nvidia%d", minor))
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(minor)))); err != nil {
		t.Skipf("NOT RUN: no device file can be made here: %v", err)
	}
	return path
}

// opens is what a process of the group hears when it opens the file.
func opens(t *testing.T, g cgroup.Group, path string) string {
	t.Helper()
	out, _ := exec.Command("sh", "-c", `echo $$ > "$0/cgroup.procs" && LC_ALL=C exec cat "$1"`, g.Dir, path).CombinedOutput() // it fails either way
	return strings.TrimSpace(string(out))
}

func TestOnly(t *testing.T) {
	t.Parallel()
	const refused = "Operation not permitted"
	for name, c := range map[string]struct {
		given  []int
		open   []int
		closed []int
	}{
		"two of four":       {given: []int{3, 1}, open: []int{1, 3, 254, 255}, closed: []int{0, 2, 247}},
		"a job without GPU": {given: nil, open: []int{255}, closed: []int{0, 1, 247}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := group(t)
			if err := devices.Only(g.Dir, c.given); err != nil {
				t.Fatal(err)
			}
			for _, m := range c.closed {
				if got := opens(t, g, node(t, m)); !strings.Contains(got, refused) {
					t.Errorf("195:%d is closed, and the process heard %q", m, got)
				}
			}
			for _, m := range c.open {
				if got := opens(t, g, node(t, m)); strings.Contains(got, refused) {
					t.Errorf("195:%d is open, and the process heard %q", m, got)
				}
			}
			if got := opens(t, g, "/dev/null"); got != "" {
				t.Errorf("/dev/null: %q", got)
			}
		})
	}
}

func TestProbeWithoutGroups(t *testing.T) {
	t.Parallel()
	if err := devices.Probe(""); !errors.Is(err, devices.ErrNoGroups) {
		t.Errorf("no group: %v", err)
	}
	if err := devices.Only(t.TempDir(), nil); err == nil {
		t.Error("an ordinary folder was taken for a group")
	}
}
