package runner_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/runner"
)

// vmKernel names a kernel image: with one, and with qemu, the tests of isolation run on a machine of their own that has
// cgroup v2 as most machines do, with all its controllers. "make vm" fetches one.
const vmKernel = "BERTH_VM_KERNEL"

// places are where in the hierarchy a worker may find itself there, and what it makes of it.
var places = []struct{ name, folder, run string }{
	{"the root", "", "^TestProcess$/^(HostMemory|Processes|Weight|Descendants|Stop|StopStubborn|Bomb|ShimKilled|ShimKilledUnseen|Adopt|Steps)$"},
	{"a service that delegates to a subgroup", "/berth.service/worker", "^TestProcess$/^(HostMemory|Processes|Weight)$"},
	{"a service whose processes are in the way", "/old.service", "^TestIsolationIsSaid$"},
}

const wantLevel = "BERTH_TEST_ISOLATION"

func TestFullIsolation(t *testing.T) {
	kernel := os.Getenv(vmKernel)
	if kernel == "" {
		t.Skip("DID NOT RUN: " + vmKernel + " names no kernel for a machine with cgroup v2 (make vm)")
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(dir, "init"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ramdisk := filepath.Join(dir, "initrd")
	if err := writeRamdisk(ramdisk, filepath.Join(dir, "init")); err != nil {
		t.Fatal(err)
	}
	qemu := exec.CommandContext(t.Context(), "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "2048", "-nographic", "-no-reboot",
		"-nic", "none", "-kernel", kernel, "-initrd", ramdisk, "-append", "console=ttyS0 quiet panic=-1 rdinit=/init")
	out, err := qemu.CombinedOutput()
	if err != nil {
		t.Fatalf("qemu: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	for _, p := range places {
		if !bytes.Contains(out, []byte("PLACE "+p.name+": pass")) {
			t.Errorf("%s: failed", p.name)
		}
	}
}

// TestIsolationIsSaid is for the machine of its own: the level is the one expected there.
func TestIsolationIsSaid(t *testing.T) {
	want := os.Getenv(wantLevel)
	if want == "" {
		t.Skip("DID NOT RUN: it is part of TestFullIsolation")
	}
	r := opener(runner.Options{})(t, t.TempDir())
	defer r.Close()
	got := r.Isolation()
	t.Log(got.Text)
	if got.Level != want || want == "cgroup-v2-fence" && !strings.Contains(got.Text, "DelegateSubgroup") {
		t.Errorf("level %s (%s), want %s", got.Level, got.Text, want)
	}
}

// beInit is the first process of that machine, and its only program: it mounts what there is to mount, runs the tests
// in each place, and turns the machine off.
func beInit() {
	defer func() { _ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART) }()
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"cgroup2", "/sys/fs/cgroup"}} {
		if err := errors.Join(os.MkdirAll(m[1], 0o755), syscall.Mount(m[0], m[1], m[0], 0, "")); err != nil && m[0] != "devtmpfs" {
			fmt.Println("mount", m[1], err)
			return
		}
	}
	for _, p := range places {
		fmt.Printf("PLACE %s: %s\n", p.name, testIn(p.folder, p.run))
	}
}

func testIn(folder, run string) string {
	dir := "/sys/fs/cgroup" + folder
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	group, err := os.Open(dir)
	if err != nil {
		return err.Error()
	}
	defer group.Close()
	level := "cgroup-v2"
	if folder == "/old.service" {
		level = "cgroup-v2-fence"
	}
	child, err := os.StartProcess("/init", []string{"/init", "-test.v", "-test.run=" + run, "-test.timeout=5m"}, &os.ProcAttr{
		Env: []string{"PATH=/bin", "TMPDIR=/tmp", wantLevel + "=" + level}, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())},
	})
	if err != nil {
		return err.Error()
	}
	for { // the first process is the parent of every orphan
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err != nil && err != syscall.EINTR:
			return err.Error()
		case pid == child.Pid && status.ExitStatus() == 0:
			return "pass"
		case pid == child.Pid:
			return "FAIL"
		}
	}
}

// writeRamdisk packs one program as /init, in the form the kernel unpacks (cpio, newc).
func writeRamdisk(path, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	add := func(name string, mode int, data []byte) {
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", b.Len()+1, mode, 0, 0, 1, time.Now().Unix(), len(data), 0, 0, 0, 0, len(name)+1, 0)
		for _, part := range [][]byte{append([]byte(name), 0), data} {
			b.Write(part)
			b.Write(make([]byte, (4-b.Len()%4)%4))
		}
	}
	add("init", 0o100755, text)
	add("TRAILER!!!", 0, nil)
	return os.WriteFile(path, b.Bytes(), 0o600)
}
