package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/container"
)

// inContainer turns the run of a command into that of a helper which holds the container the command runs in. Shim, log,
// locks and limits of time stay; memory and weight are the container's own. The spec is the job's, its secrets filled in.
func (w *Worker) inContainer(a *attempt, spec job.Spec, run runner.Run, ids runner.IDs) (runner.Run, error) {
	ability, err := w.engine.able()
	if err != nil {
		return run, err
	}
	p := container.Plan{
		Run: a.id, Store: w.store.Dir(), Engine: w.engine.api.Host(), Dir: ids.StateDir,
		Image: spec.Image, Login: w.cfg.Containers.Login,
		Command: run.Command, Env: containerEnvironment(spec, a, ids), Workdir: spec.Workdir,
		Volumes:  slices.Clone(spec.Volumes),
		MemoryMB: run.Limits.MemoryMB, CPUs: run.Limits.CPUs,
		GPUs: a.alloc.UUIDs(), GPUMethod: ability.For(a.alloc.UUIDs()),
		Stop: run.StopSignal, Grace: run.Grace, Lost: run.SessionGrace,
		Labels: map[string]string{"berth.job": ids.JobID, "berth.user": a.claim.Job.User, "berth.project": a.project},
	}
	if c := spec.Container; c != nil {
		p.Pull, p.Network = container.Pull(c.Pull), c.Network
		p.ShmMB, _ = c.ShmSize.MB()
	}
	if err := w.identify(&p, spec, ability); err != nil {
		return run, err
	}
	p.Owned = []string{filepath.Dir(runner.ResultFile(ids.StateDir)), ids.CheckpointDir}
	for _, dir := range p.Owned {
		p.Volumes = withFolder(p.Volumes, dir)
	}
	if isFolder(spec.Workdir) {
		p.Volumes = withFolder(p.Volumes, spec.Workdir)
	}
	if err := p.Check(); err != nil {
		return run, &runner.StartError{Code: container.CodeEngine, Reason: err.Error()}
	}
	run.Command, run.Dir, run.After, run.Limits = container.Command(a.id), "/", p.After(), runner.Limits{}
	run.Env, err = p.Environment()
	return run, err
}

// identify says who the job is in the container: the one that jobs of this worker run as, so that files belong to the
// same person. Only a worker that is root, which may be anybody, lets the job choose.
func (w *Worker) identify(p *container.Plan, spec job.Spec, ability container.Ability) error {
	c := w.cfg.Containers
	own := fmt.Sprintf("%d:%d", c.UID, c.GID)
	chosen := ""
	if spec.Container != nil {
		chosen = spec.Container.User
	}
	switch {
	case chosen == "" || chosen == own || chosen == strconv.Itoa(c.UID):
	case c.UID != 0:
		return &runner.StartError{Code: container.CodeEngine, Reason: fmt.Sprintf(
			"container.user %s: this worker runs jobs as %s and no one else (only a worker that runs as root may choose)", chosen, own)}
	default:
		p.User = chosen
		return nil
	}
	if ability.Rootless {
		p.User = "0:0" // root in there is the person out here
		return nil
	}
	p.User = own
	for _, g := range c.Groups {
		if g != c.GID {
			p.Groups = append(p.Groups, strconv.Itoa(g))
		}
	}
	return nil
}

// hostsOwn are the variables of the worker that mean nothing in an image. What the spec itself says stays.
var hostsOwn = []string{"PATH", "SHELL", "HOME", "TMPDIR"}

// containerHome is the HOME of a job that names none: whom it runs as is mostly unknown to the image, and the folder of
// an unknown user is one that it may not write.
const containerHome = "/tmp"

func containerEnvironment(spec job.Spec, a *attempt, ids runner.IDs) []string {
	var base []string
	for _, entry := range ids.Base { // who the person is; what is where on this machine the image does not have
		if key, _, _ := strings.Cut(entry, "="); key == "USER" || key == "LOGNAME" {
			base = append(base, entry)
		}
	}
	ids.Base = base
	env := slices.DeleteFunc(runner.Environment(spec, a.devices(), ids), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return slices.Contains(hostsOwn, key) && spec.Env[key] == nil
	})
	if spec.Env["HOME"] == nil {
		env = append(env, "HOME="+containerHome)
	}
	return env
}

// withFolder mounts a folder of this machine under its own path, unless a volume covers that.
func withFolder(volumes []string, dir string) []string {
	for _, v := range volumes {
		target := strings.TrimSuffix(strings.Split(v, ":")[1], "/")
		if dir == target || strings.HasPrefix(dir, target+"/") {
			return volumes
		}
	}
	return append(volumes, dir+":"+dir)
}

// isFolder reports whether the machine has that folder. A workdir that it does not have is one of the image.
func isFolder(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && dir != "/"
}
