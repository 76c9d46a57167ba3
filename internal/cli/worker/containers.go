package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/checkup"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/runner/container"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/worker"
)

// containers are the worker's settings for jobs with an image; nil when it was told to run none.
func containers(w config.Worker, env cli.Env) *worker.Containers {
	if w.Runner == "process" {
		return nil
	}
	groups, _ := os.Getgroups() // without them a run has the main group alone
	return &worker.Containers{
		Engine: w.Socket, Required: w.Runner == "container", GPUs: gpuMethods[w.ContainerGPUs],
		UID: os.Getuid(), GID: os.Getgid(), Groups: groups, Login: loginFile(env),
	}
}

var gpuMethods = map[string]container.GPUMethod{"auto": "", "cdi": container.CDI, "hook": container.Capability}

// loginFile is where `docker login` of the worker's user keeps passwords of registries.
func loginFile(env cli.Env) string {
	if dir := env.Getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	if home := env.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".docker", "config.json")
	}
	return ""
}

// checkContainers looks whether jobs with an image could run, on the GPUs of this machine too.
func checkContainers(ctx context.Context, w config.Worker, devices []telemetry.Device) checkup.Finding {
	const what = "container"
	if w.Runner == "process" {
		return checkup.Finding{What: what, Verdict: checkup.Works, Found: "not wanted: --runner process"}
	}
	bad := checkup.Half // jobs without an image run all the same
	if w.Runner == "container" {
		bad = checkup.Fails
	}
	e, err := container.Open(w.Socket)
	if err != nil {
		return checkup.Bad(what, checkup.Fails, err.Error(), "give the path of its socket with --container-socket")
	}
	defer func() { _ = e.Close() }() // nothing was done with it that could be lost
	look, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ability, err := e.Look(look)
	if err != nil {
		return checkup.Bad(what, bad, err.Error(), engineAdvice(w.Socket))
	}
	found := checkup.Finding{What: what, Verdict: checkup.Works, Found: ability.Text() + ", at " + w.Socket}
	if method := gpuMethods[w.ContainerGPUs]; method == container.CDI || len(devices) == 0 {
		return found
	}
	for _, d := range devices {
		if ability.For([]string{d.UUID}) == container.CDI {
			continue
		}
		found.Verdict, found.Do = checkup.Half, "GPU "+d.Key()+" is not there by CDI: sudo nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml; "+
			"an engine older than Docker 28.2 needs {\"features\": {\"cdi\": true}} in daemon.json too. Until then NVIDIA's runtime hook is used"
		break
	}
	return found
}

// engineAdvice says what to do about an engine that does not answer.
func engineAdvice(socket string) string {
	_, err := os.Stat(socket)
	if err == nil {
		err = fs.ErrPermission // it is there, and was not opened
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "for jobs with an image install Docker, or name another engine's socket with --container-socket; --runner process if none are wanted"
	}
	return "is the engine running? May this user use it (usermod -aG docker USER, then log in again)?"
}
