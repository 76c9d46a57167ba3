package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
)

// A run that takes no notice of CUDA_VISIBLE_DEVICES is refused the device files of the other cards; one without a GPU
// is refused all of them.
func TestOtherCardsAreClosedToARun(t *testing.T) {
	h, f := newHouse(t), newFake(t, 3)
	r, err := runner.New(runner.Options{StoreDir: t.TempDir(), Spares: -1})
	if err != nil {
		t.Fatal(err)
	}
	closes := r.Isolation()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !closes.Devices {
		t.Skip("NOT RUN: " + closes.Text)
	}
	for i := range 3 {
		path := filepath.Join(h.dir, fmt.Sprintf("nvidia%d", i))
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(i)))); err != nil {
			t.Skipf("NOT RUN: no device file can be made here: %v", err)
		}
	}
	h.work("titan", f)
	h.sees("titan", "that it closes GPUs", func(m queue.Machine) bool { return strings.HasPrefix(m.Isolation, "cgroup") })
	const probe = `for i in 0 1 2; do LC_ALL=C cat nvidia$i 2>&1 | grep -q "not permitted" && echo "$i closed" || echo "$i open"; done > seen; echo $BERTH_GPU_INDICES > index`
	h.result(h.submit(1, h.does(probe)))
	given := strings.TrimSpace(h.appears("index"))
	want := ""
	for i := range 3 {
		word := "closed"
		if given == fmt.Sprint(i) {
			word = "open"
		}
		want += fmt.Sprintf("%d %s\n", i, word)
	}
	if seen := h.appears("seen"); seen != want {
		t.Errorf("a run on GPU %s found %q", given, seen)
	}
	if err := os.Remove(filepath.Join(h.dir, "seen")); err != nil {
		t.Fatal(err)
	}
	if r := h.result(h.submit(0, h.does(probe))); r.State != job.Succeeded {
		t.Errorf("%s: %s", r.State, r.Reason)
	}
	if seen := h.appears("seen"); strings.Contains(seen, "open") {
		t.Errorf("a run without a GPU found %q", seen)
	}
}
