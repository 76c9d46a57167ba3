package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/container"
	"github.com/berthq/berth/telemetry"
)

// Who a job is in its container: the one jobs of the worker run as, and nobody else unless the worker is root.
func TestIdentify(t *testing.T) {
	t.Parallel()
	ada := Containers{UID: 1000, GID: 1000, Groups: []int{1000, 44, 998}}
	grace := &runner.Account{UID: 2000, GID: 2001, Groups: []uint32{2001, 44}}
	for _, c := range []struct {
		name     string
		who      Containers
		account  *runner.Account
		rootless bool
		chosen   string
		user     string
		groups   []string
		refused  bool
	}{
		{"the worker's own", ada, nil, false, "", "1000:1000", []string{"44", "998"}, false},
		{"said again", ada, nil, false, "1000:1000", "1000:1000", []string{"44", "998"}, false},
		{"an unprivileged worker and root", ada, nil, false, "0:0", "", nil, true},
		{"an unprivileged worker and a name", ada, nil, false, "root", "", nil, true},
		{"a worker that is root", Containers{}, nil, false, "1000:1000", "1000:1000", nil, false},
		{"a worker that is root, nothing chosen", Containers{}, nil, false, "", "0:0", nil, false},
		{"an account of the map", Containers{}, grace, false, "", "2000:2001", []string{"44"}, false},
		{"an account of the map that would be root", Containers{}, grace, false, "0:0", "", nil, true},
		{"an account of the map, a rootless engine", Containers{}, grace, true, "", "", nil, true},
		{"a rootless engine", ada, nil, true, "", "0:0", nil, false},
		{"a rootless engine and somebody else", ada, nil, true, "0:0", "", nil, true},
	} {
		w := &Worker{cfg: Config{Containers: &c.who}}
		var p container.Plan
		err := w.whoRuns(c.account).identify(&p, job.Spec{Container: &job.Container{User: c.chosen}}, container.Ability{Rootless: c.rootless})
		if (err != nil) != c.refused || p.User != c.user || !slices.Equal(p.Groups, c.groups) {
			t.Errorf("%s: %v, user %q, groups %v", c.name, err, p.User, p.Groups)
		}
		if c.refused && !strings.Contains(err.Error(), "no one else") && !strings.Contains(err.Error(), "rootless") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What of the machine's environment is in the container: who the person is. Where things are is the image's business.
func TestContainerEnvironment(t *testing.T) {
	t.Parallel()
	path, home := "/opt/bin", "/work"
	a := &attempt{alloc: &gpuslots.Allocation{Devices: []telemetry.Device{{UUID: "GPU-a", Index: 3}}}}
	ids := runner.IDs{JobID: "7", Attempt: 1, StateDir: "/s", Base: []string{"HOME=/home/ada", "USER=ada", "LOGNAME=ada", "PATH=/usr/bin", "SHELL=/bin/zsh", "TMPDIR=/scratch", "XDG_RUNTIME_DIR=/run/1"}}
	env := containerEnvironment(job.Spec{}, a, ids)
	for _, want := range []string{"USER=ada", "LOGNAME=ada", "HOME=/tmp", "BERTH_JOB_ID=7", "BERTH_GPUS=GPU-a", "BERTH_RESULT_FILE=" + runner.ResultFile("/s")} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for _, name := range []string{"PATH=", "SHELL=", "TMPDIR=", "XDG_RUNTIME_DIR=", "HOME=/home"} {
		if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name) }) {
			t.Errorf("%s is in the container: %q", name, env)
		}
	}
	env = containerEnvironment(job.Spec{Env: map[string]*string{"PATH": &path, "HOME": &home}}, a, ids)
	if !slices.Contains(env, "PATH=/opt/bin") || !slices.Contains(env, "HOME=/work") || slices.Contains(env, "HOME=/tmp") {
		t.Errorf("what the job says itself: %q", env)
	}
}

func TestFoldersOfTheMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		volumes []string
		dir     string
		want    int
	}{
		{nil, "/w", 1},
		{[]string{"/data:/w"}, "/w", 1},
		{[]string{"/data:/w/:ro"}, "/w/sub", 1},
		{[]string{"/data:/wide"}, "/w", 2},
		{[]string{"/data:/w/sub"}, "/w", 2},
	} {
		if got := withFolder(slices.Clone(c.volumes), c.dir); len(got) != c.want {
			t.Errorf("%s beside %v: %v", c.dir, c.volumes, got)
		}
	}
	if dir := t.TempDir(); !isFolder(dir) || isFolder("/") || isFolder(dir+"/none") {
		t.Error("what a folder is that can be mounted")
	}
}
