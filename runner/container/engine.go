package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
)

// DefaultEngine is where Docker listens.
const DefaultEngine = "unix:///var/run/docker.sock"

// Engine is the container engine of this machine. Safe for concurrent use.
type Engine struct {
	host string
	api  *client.Client
}

// Open makes a client for the engine at host: a path, or unix:///var/run/docker.sock. It does not dial; Look does.
func Open(host string) (*Engine, error) {
	if strings.HasPrefix(host, "/") {
		host = "unix://" + host
	}
	if !strings.HasPrefix(host, "unix:///") {
		return nil, fmt.Errorf("the container engine's address %q: want the path of a socket of this machine, such as /var/run/docker.sock", host)
	}
	api, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("the container engine's address %q: %w", host, err)
	}
	return &Engine{host, api}, nil
}

// Host is the engine's address.
func (e *Engine) Host() string { return e.host }

// Close lets go of idle connections.
func (e *Engine) Close() error { return e.api.Close() }

// Ability is what the engine can do.
type Ability struct {
	Version string
	API     string
	Method  GPUMethod       // of a GPU about which nothing more is known
	Devices map[string]bool // that the engine says it knows, "nvidia.com/gpu=GPU-…"; nil: it does not say

	// Rootless: the engine runs as the person, whose files belong to root in the container.
	Rootless bool
}

// Look asks the engine what it is. An error means that no container can be run here.
func (e *Engine) Look(ctx context.Context) (Ability, error) {
	ping, err := e.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return Ability{}, e.unreachable(err)
	}
	got, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Ability{}, fmt.Errorf("the container engine at %s does not say what it is: %w", e.host, err)
	}
	info := got.Info
	a := Ability{Version: info.ServerVersion, API: ping.APIVersion, Method: Capability}
	if versions.GreaterThanOrEqualTo(ping.APIVersion, "1.44") && len(info.CDISpecDirs) > 0 {
		a.Method = CDI
	}
	if versions.GreaterThanOrEqualTo(ping.APIVersion, "1.50") {
		a.Devices = map[string]bool{}
		for _, d := range info.DiscoveredDevices {
			a.Devices[d.ID] = true
		}
	}
	a.Rootless = slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.Contains(o, "rootless") })
	return a, nil
}

func (e *Engine) unreachable(err error) error {
	path := strings.TrimPrefix(e.host, "unix://")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no container engine at %s", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the worker may not use the container engine at %s (permission denied)", path)
	}
	return fmt.Errorf("no container engine answers at %s: %w", path, err)
}

// Text is the engine for people: "Docker 26.1.5, GPUs by CDI".
func (a Ability) Text() string {
	how := "GPUs by NVIDIA's runtime hook"
	if a.Method == CDI {
		how = "GPUs by CDI"
	}
	return "container engine " + a.Version + ", " + how
}

// For is how the engine is asked for exactly these GPUs: by CDI, unless it says that it does not know one of them so.
func (a Ability) For(uuids []string) GPUMethod {
	if a.Method == CDI && a.Devices != nil {
		for _, uuid := range uuids {
			if !a.Devices[cdiName(uuid)] {
				return Capability
			}
		}
	}
	return a.Method
}

// Sweep removes the containers of a run of that store, running or not, and says how many there were.
func (e *Engine) Sweep(ctx context.Context, store, run string) (int, error) {
	found, err := e.list(ctx, LabelRun+"="+run, LabelStore+"="+store)
	if err != nil {
		return 0, fmt.Errorf("look for containers of run %s: %w", run, err)
	}
	return len(found), e.remove(ctx, found)
}

// Strays removes the containers of that store whose run is over, as over says, and names the runs.
func (e *Engine) Strays(ctx context.Context, store string, over func(run string) bool) ([]string, error) {
	found, err := e.list(ctx, LabelStore+"="+store)
	if err != nil {
		return nil, fmt.Errorf("look for containers that were left: %w", err)
	}
	found = slices.DeleteFunc(found, func(c made) bool { return !over(c.run) })
	runs := make([]string, len(found))
	for i, c := range found {
		runs[i] = c.run
	}
	return runs, e.remove(ctx, found)
}

// made is a container of ours.
type made struct{ id, run string }

func (e *Engine) list(ctx context.Context, labels ...string) ([]made, error) {
	list, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labels...)})
	if err != nil {
		return nil, err
	}
	all := make([]made, len(list.Items))
	for i, c := range list.Items {
		all[i] = made{c.ID, c.Labels[LabelRun]}
	}
	return all, nil
}

// removeAgain is how often a container that is on its way out is looked at.
const removeAgain = 50 * time.Millisecond

func (e *Engine) remove(ctx context.Context, containers []made) error {
	var failed error
	for _, c := range containers {
		if err := e.removeOne(ctx, c.id); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove container %.12s of run %s: %w", c.id, c.run, err))
		}
	}
	return failed
}

// removeOne returns when the container is gone, also when somebody else is removing it.
func (e *Engine) removeOne(ctx context.Context, id string) error {
	for {
		_, err := e.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if !errdefs.IsConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(removeAgain):
		}
	}
}
