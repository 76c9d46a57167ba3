package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Plan is everything about one container, made by the worker and carried out by the helper.
type Plan struct {
	Run     string            `json:"run"`    // "number[.index].attempt"
	Store   string            `json:"store"`  // whose containers they are: the worker's store
	Engine  string            `json:"engine"` // unix:///var/run/docker.sock
	Dir     string            `json:"dir"`    // the run's folder
	Image   string            `json:"image"`
	Pull    Pull              `json:"pull,omitempty"`
	Login   string            `json:"login,omitempty"`   // the file with passwords of registries, docker's config.json
	Command []string          `json:"command,omitempty"` // after the image's entrypoint, as `docker run` has it
	Env     []string          `json:"env,omitempty"`
	Workdir string            `json:"workdir,omitempty"` // "" = the image's
	User    string            `json:"user,omitempty"`    // "uid:gid"; "" = the image's
	Groups  []string          `json:"groups,omitempty"`
	Volumes []string          `json:"volumes,omitempty"` // host:container[:ro]
	Owned   []string          `json:"owned,omitempty"`   // folders of the worker's that are given to User
	ShmMB   int64             `json:"shm_mb,omitempty"`
	Network string            `json:"network,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"` // beside ours

	MemoryMB  int64         `json:"memory_mb,omitempty"`
	CPUs      int           `json:"cpus,omitempty"` // a weight against other runs, never a ceiling, as for processes
	GPUs      []string      `json:"gpus,omitempty"` // UUIDs
	GPUMethod GPUMethod     `json:"gpu_method,omitempty"`
	Stop      string        `json:"stop,omitempty"`          // signal; SIGTERM
	Grace     time.Duration `json:"grace,omitempty"`         // from the stop signal to the shim's kill
	Lost      time.Duration `json:"session_grace,omitempty"` // the same when the worker's session is over
}

// Pull says when the image is fetched.
type Pull string

// The pull policies. Empty is missing.
const (
	PullMissing Pull = "missing"
	PullAlways  Pull = "always"
	PullNever   Pull = "never"
)

// GPUMethod is how the engine is asked for GPUs.
type GPUMethod string

// The ways to ask.
const (
	CDI        GPUMethod = "cdi"
	Capability GPUMethod = "capability"
)

// Check finds what an engine would refuse, or worse, understand differently.
func (p Plan) Check() error {
	switch {
	case p.Run == "" || p.Store == "" || p.Engine == "" || p.Dir == "":
		return errors.New("the container has no run, store, engine or folder")
	case strings.TrimSpace(p.Image) == "":
		return errors.New("image: it is empty")
	case len(p.GPUs) > 0 && p.GPUMethod != CDI && p.GPUMethod != Capability:
		return fmt.Errorf("the container engine cannot be asked for GPUs by %q", p.GPUMethod)
	}
	switch p.Pull {
	case "", PullMissing, PullAlways, PullNever:
	default:
		return fmt.Errorf("container.pull: %q is none of missing, always, never", p.Pull)
	}
	for _, v := range p.Volumes {
		if err := checkVolume(v); err != nil {
			return err
		}
	}
	return nil
}

// checkVolume accepts host:container[:ro|rw] with absolute paths: a relative one would name a volume of the engine.
func checkVolume(v string) error {
	parts := strings.Split(v, ":")
	if len(parts) < 2 || len(parts) > 3 || !strings.HasPrefix(parts[0], "/") || !strings.HasPrefix(parts[1], "/") {
		return fmt.Errorf("volumes: %q is not /on/the/host:/in/the/container, with :ro or without", v)
	}
	if len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
		return fmt.Errorf("volumes: %q ends in %q, which is neither ro nor rw", v, parts[2])
	}
	return nil
}

// The plan travels in the helper's environment: arguments can be read by everybody on the machine, and one string of
// either may have 128 KiB.
const (
	planVar   = "BERTH_CONTAINER_"
	planChunk = 100 << 10
)

// Environment is the helper's whole environment. The job's own is inside the plan: it must not reach the helper.
func (p Plan) Environment() ([]string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var env []string
	for i := 0; len(b) > 0; i++ {
		n := min(planChunk, len(b))
		env = append(env, planVar+strconv.Itoa(i)+"="+string(b[:n]))
		b = b[n:]
	}
	return env, nil
}

// After is the command that removes the run's container: the run's last.
func (p Plan) After() []string { return []string{self, ArgEnd, p.Engine, p.Store, p.Run} }

func readPlan(getenv func(string) string) (Plan, error) {
	var text strings.Builder
	for i := 0; ; i++ {
		chunk := getenv(planVar + strconv.Itoa(i))
		if chunk == "" {
			break
		}
		text.WriteString(chunk)
	}
	var p Plan
	if err := json.Unmarshal([]byte(text.String()), &p); err != nil {
		return p, fmt.Errorf("the plan of the container cannot be read: %w", err)
	}
	return p, p.Check()
}
