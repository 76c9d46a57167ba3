// Package enginetest starts a container engine of a test's own: a dockerd with its own folders and socket, without a
// network, ended by its pid. The engine is one that fetch.sh unpacked into the user's cache folder, or the machine's.
// Where there is none, or the test may not start one, it says so aloud and skips. Images are made of one static binary;
// GPUs are entries of a CDI file that leave a sign in the container.
package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
)

// Patience is how long anything may take on a machine that does much else.
const Patience = 60 * time.Second

// Engine is a running engine.
type Engine struct {
	Socket  string
	Version string
	CDI     bool // it knows GPUs by CDI

	t   testing.TB
	dir string
	api *client.Client
	cmd *exec.Cmd
	log *os.File
}

// Start starts an engine, which ends with the test. gpus are the UUIDs of those its CDI file has; in a container each
// leaves CDI_GPU_<its place in the list>=<UUID>.
func Start(t testing.TB, gpus ...string) *Engine {
	t.Helper()
	bin := find(t)
	dir, err := os.MkdirTemp("", "eng") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{t: t, dir: dir, Socket: dir + "/d.sock"}
	t.Cleanup(func() {
		e.Stop()
		e.unmount()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	e.write("daemon.json", fmt.Sprintf(`{"features": {"cdi": true}, "cdi-spec-dirs": [%q]}`, dir+"/cdi"))
	// Stands for NVIDIA's, which an engine finds by its name.
	e.write("bin/nvidia-container-runtime-hook", "#!/bin/sh\nexit 0\n")
	e.write("cdi/nvidia.json", cdiSpec(gpus))
	e.launch(bin)
	if e.api, err = client.New(client.WithHost("unix://" + e.Socket)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.api.Close() })
	e.wait()
	return e
}

// find is the folder of dockerd and what it needs; "" when they are in PATH.
func find(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("DID NOT RUN: starting a container engine takes root")
	}
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "berth", "engine")
		if _, err := os.Stat(dir + "/usr/sbin/dockerd"); err == nil {
			return dir
		}
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		t.Skip("DID NOT RUN: no dockerd here. `make engine` unpacks one into the cache folder, where tests find it")
	}
	return ""
}

func (e *Engine) write(name, text string) {
	e.t.Helper()
	path := filepath.Join(e.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		e.t.Fatal(err)
	}
}

// launch starts dockerd. An engine that knows no CDI does not know daemon.json's words for it either.
func (e *Engine) launch(bin string) {
	e.t.Helper()
	path := e.dir + "/bin"
	if bin != "" {
		path += ":" + bin + "/usr/sbin:" + bin + "/usr/bin"
	}
	path += ":" + os.Getenv("PATH")
	dockerd := "dockerd"
	if bin != "" {
		dockerd = bin + "/usr/sbin/dockerd"
	}
	args := []string{
		"--host", "unix://" + e.Socket, "--data-root", e.dir + "/data", "--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/d.pid",
		"--iptables=false", "--ip6tables=false", "--bridge=none",
	}
	version, err := exec.Command(dockerd, "--version").Output()
	if err != nil {
		e.t.Fatalf("dockerd --version: %v", err)
	}
	e.Version = strings.TrimSuffix(slices.Concat(strings.Fields(string(version)), []string{"", "", ""})[2], ",")
	if e.CDI = versions.GreaterThanOrEqualTo(plain(e.Version), "25.0"); e.CDI {
		args = append(args, "--config-file", e.dir+"/daemon.json")
	}
	if e.log, err = os.Create(e.dir + "/log"); err != nil {
		e.t.Fatal(err)
	}
	e.cmd = exec.Command(dockerd, args...)
	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log
	e.cmd.Env = append(os.Environ(), "PATH="+path)
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
}

// plain is a version without what a distribution adds: 26.1.5+dfsg1.
func plain(version string) string {
	head, _, _ := strings.Cut(version, "+")
	return head
}

// wait returns when the engine answers. There is no event for it: its socket comes before it listens.
func (e *Engine) wait() {
	e.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := e.api.Ping(context.Background(), client.PingOptions{NegotiateAPIVersion: true})
		if err == nil {
			return
		}
		if time.Since(began) > Patience {
			text, _ := os.ReadFile(e.dir + "/log")
			e.t.Fatalf("the engine does not come up: %v\n%s", err, text)
		}
	}
}

// Stop ends the engine as a service manager does, with its containers.
func (e *Engine) Stop() {
	if e.cmd == nil || e.cmd.ProcessState != nil {
		return
	}
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	_ = e.cmd.Wait()
	e.log.Close()
}

// Restart starts an engine that was stopped again, on the same folders.
func (e *Engine) Restart() {
	e.t.Helper()
	e.launch(find(e.t))
	e.wait()
}

// Image makes an image that holds one program, /job (package enginetest/job), with changes in the words of a
// Dockerfile.
func (e *Engine) Image(name string, changes ...string) {
	e.t.Helper()
	text, err := os.ReadFile(e.program())
	if err != nil {
		e.t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	_ = w.WriteHeader(&tar.Header{Name: "tmp", Mode: 0o1777, Typeflag: tar.TypeDir})
	_ = w.WriteHeader(&tar.Header{Name: "job", Mode: 0o755, Size: int64(len(text))})
	_, _ = w.Write(text)
	if err := w.Close(); err != nil {
		e.t.Fatal(err)
	}
	done, err := e.api.ImageImport(context.Background(), client.ImageImportSource{Source: &archive, SourceName: "-"}, name,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		e.t.Fatal(err)
	}
	defer done.Close()
	if text, err := io.ReadAll(done); err != nil || bytes.Contains(text, []byte("error")) {
		e.t.Fatalf("%v: %s", err, text)
	}
}

// program builds the job of the images.
func (e *Engine) program() string {
	e.t.Helper()
	out := filepath.Join(e.dir, "job")
	cmd := exec.Command("go", "build", "-o", out, "github.com/berthq/berth/runner/container/enginetest/job")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("%v: %s", err, text)
	}
	return out
}

// Kill ends the engine without a word, as a crash would.
func (e *Engine) Kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	e.log.Close()
}

// unmount takes away the mounts that an engine leaves which was killed.
func (e *Engine) unmount() {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		e.t.Error(err)
		return
	}
	lines := slices.Collect(strings.Lines(string(mounts)))
	slices.Reverse(lines) // the innermost came last
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], e.dir+"/") {
			_ = syscall.Unmount(f[4], syscall.MNT_DETACH) // what stays, the removal of the folder names
		}
	}
}

// Containers names those there are, running or not.
func (e *Engine) Containers() []string {
	e.t.Helper()
	list, err := e.api.ContainerList(context.Background(), client.ContainerListOptions{All: true})
	if err != nil {
		e.t.Fatal(err)
	}
	var names []string
	for _, c := range list.Items {
		names = append(names, fmt.Sprint(c.Names, " ", c.State))
	}
	return names
}

// cdiSpec is a CDI file in which each GPU leaves its UUID in the container's environment.
func cdiSpec(gpus []string) string {
	type edits struct {
		Env []string `json:"env"`
	}
	type device struct {
		Name  string `json:"name"`
		Edits edits  `json:"containerEdits"`
	}
	spec := struct {
		Version string   `json:"cdiVersion"`
		Kind    string   `json:"kind"`
		Devices []device `json:"devices"`
	}{"0.5.0", "nvidia.com/gpu", []device{}}
	for i, uuid := range gpus {
		spec.Devices = append(spec.Devices, device{uuid, edits{[]string{fmt.Sprintf("CDI_GPU_%d=%s", i, uuid)}}})
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // plain strings
	}
	return string(text)
}
