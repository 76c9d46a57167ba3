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
	if err := w.whoRuns(run.Account).identify(&p, spec, ability); err != nil {
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
	run.Account = nil // the helper is the worker's: the engine is not for everybody
	run.Env, err = p.Environment()
	return run, err
}

// person is as whom a job with an image runs.
type person struct {
	uid, gid int
	groups   []int
	mapped   bool // another account than the worker's
	free     bool // the job may choose another
}

// whoRuns is the account of the job's user, or the worker itself. Only a worker that is root, which may be anybody, and
// that was given no map of users, lets the job choose.
func (w *Worker) whoRuns(account *runner.Account) person {
	c := w.cfg.Containers
	if account == nil {
		return person{uid: c.UID, gid: c.GID, groups: c.Groups, free: c.UID == 0 && w.cfg.Users == nil}
	}
	who := person{uid: int(account.UID), gid: int(account.GID), mapped: true}
	for _, g := range account.Groups {
		who.groups = append(who.groups, int(g))
	}
	return who
}

// identify says who the job is in the container: the one it would be as a process, so that files belong to the same
// person.
func (who person) identify(p *container.Plan, spec job.Spec, ability container.Ability) error {
	own := fmt.Sprintf("%d:%d", who.uid, who.gid)
	chosen := ""
	if spec.Container != nil {
		chosen = spec.Container.User
	}
	refuse := func(format string, args ...any) error {
		return &runner.StartError{Code: container.CodeEngine, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case chosen == "" || chosen == own || chosen == strconv.Itoa(who.uid):
	case !who.free:
		return refuse("container.user %s: this worker runs the job as %s and no one else (only a worker that is root and has no --users may choose)", chosen, own)
	default:
		p.User = chosen
		return nil
	}
	switch {
	case ability.Rootless && who.mapped:
		return refuse("a rootless container engine has one user, and the job's is %s: --users needs an engine that runs as root", own)
	case ability.Rootless:
		p.User = "0:0" // root in there is the person out here
		return nil
	}
	p.User = own
	for _, g := range who.groups {
		if g != who.gid {
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
