package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// GPU is one device as its machine announces it. What the machine does not know is absent.
type GPU struct {
	UUID               string   `json:"uuid"`
	Index              int      `json:"index"`
	Name               string   `json:"name"`
	MemoryTotalMB      int64    `json:"memory_total_mb,omitempty"`
	MemoryFreeMB       *int64   `json:"memory_free_mb,omitempty"`
	MemoryUsedMB       *int64   `json:"memory_used_mb,omitempty"`
	UtilizationPercent *float64 `json:"utilization_percent,omitempty"`
	TemperatureC       *float64 `json:"temperature_c,omitempty"`
	PowerW             *float64 `json:"power_w,omitempty"`
	ComputeCapability  string   `json:"compute_capability,omitempty"`
	Score              *float64 `json:"score,omitempty"`
	Slots              int      `json:"slots"`
	Active             int      `json:"active"`
	State              string   `json:"state"`             // ready, foreign, quarantined, unreadable, dirty, draining
	Why                string   `json:"why,omitempty"`     // a sentence
	Foreign            []string `json:"foreign,omitempty"` // processes that are not ours: who and how much
	Jobs               []string `json:"jobs,omitempty"`    // number[.index] of those on it
}

// Machine is one worker's presence: what it is, has and does. It is believed for 15 s.
type Machine struct {
	Name     string            `json:"name"`
	Instance string            `json:"instance"`
	Session  string            `json:"session,omitempty"`
	Version  string            `json:"version"`
	Boot     string            `json:"boot,omitempty"`      // boot id: who reads the same one is on the same machine
	PIDSpace string            `json:"pid_space,omitempty"` // whose process numbers it sees
	At       time.Time         `json:"at"`
	Source   string            `json:"gpu_source,omitempty"`
	GPUs     []GPU             `json:"gpus"`
	CPUs     int               `json:"cpus"`
	MemoryMB int64             `json:"memory_mb,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Draining bool              `json:"draining,omitempty"`
	RunsAs   string            `json:"runs_as,omitempty"` // as whom its runs run, in words
	Running  []string          `json:"running,omitempty"` // number[.index]
	// Progress is how far the runs say they are, by number[.index]; those that say nothing are absent.
	Progress map[string]job.Progress `json:"progress,omitempty"`
	Projects map[string]int          `json:"projects,omitempty"` // GPUs each project holds here
	// Hours are the GPU hours that the runs of now have had, by project.
	Hours map[string]float64 `json:"gpu_hours,omitempty"`
	// Frameworks are the Python frameworks found, each with the GPUs it sees; nil for one not asked yet. The map is nil
	// until there are answers, and empty where there is no framework.
	Frameworks map[string][]string `json:"frameworks"`
	// Containers is the engine for jobs with an image, "Docker 26.1.5, GPUs by CDI"; NoContainers why there is none. Both
	// are empty for a worker of an older version.
	Containers   string            `json:"containers,omitempty"`
	NoContainers string            `json:"no_containers,omitempty"`
	Warnings     []string          `json:"warnings,omitempty"` // what an operator should look at
	Refusals     map[string]string `json:"refusals,omitempty"` // shape -> why it cannot take it now
	Never        map[string]string `json:"never,omitempty"`    // shape -> why it never can
	Reasons      map[string]string `json:"reasons,omitempty"`  // shape -> the refusal in one word
	// Isolation is how well the machine holds a run together: cgroup-v2, cgroup-hybrid, cgroup-v2-fence or process-group.
	Isolation string `json:"isolation,omitempty"`
}

// Announce says that the machine is there. Repeat it at least every 5 s, and when something changes.
func (q *Queue) Announce(ctx context.Context, m Machine) error {
	if m.At.IsZero() {
		m.At = q.now().UTC()
	}
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("announce %s: %w", m.Name, err)
	}
	if _, err := q.js.PublishMsg(ctx, newMsg(machineSubject(m.Name), body)); err != nil {
		return fmt.Errorf("announce %s: %w", m.Name, err)
	}
	return nil
}

// Depart takes the machine off the list: its worker ends in good order.
func (q *Queue) Depart(ctx context.Context, name string) error {
	m := newMsg(machineSubject(name), nil)
	m.Header.Set(headerKVOp, "DEL")
	if _, err := q.js.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("depart %s: %w", name, err)
	}
	return nil
}

// MachineKey is the key of a machine's presence, as WatchMachines names one that is gone.
func MachineKey(name string) string { return token(name) }

func machineSubject(name string) string { return "$KV." + BucketMachines + "." + token(name) }

// Machines lists the machines that are there, by name.
func (q *Queue) Machines(ctx context.Context) ([]Machine, error) {
	var all []Machine
	err := q.eachKey(ctx, BucketMachines, func(_ string, value []byte) {
		var m Machine
		if json.Unmarshal(value, &m) == nil {
			all = append(all, m)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	slices.SortFunc(all, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// WatchMachines calls see with every announcement, beginning with those that stand, until ctx ends. gone is called for
// a machine that departed; one that fell silent is told by its At.
func (q *Queue) WatchMachines(ctx context.Context, see func(Machine), gone func(key string)) error {
	return q.watchMachines(ctx, ">", see, gone)
}

// WatchMachine is [Queue.WatchMachines] for one: of a large fleet nothing else is sent.
func (q *Queue) WatchMachine(ctx context.Context, name string, see func(Machine)) error {
	return q.watchMachines(ctx, MachineKey(name), see, func(string) {})
}

func (q *Queue) watchMachines(ctx context.Context, keys string, see func(Machine), gone func(key string)) error {
	kv, err := q.js.KeyValue(ctx, BucketMachines)
	if err != nil {
		return fmt.Errorf("machines: %w", streamError(err))
	}
	w, err := kv.Watch(ctx, keys)
	if err != nil {
		return fmt.Errorf("machines: %w", err)
	}
	defer func() { _ = w.Stop() }() // fails only when the connection is gone
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return nil
			}
			passMachine(e, see, gone)
		}
	}
}

func passMachine(e jetstream.KeyValueEntry, see func(Machine), gone func(key string)) {
	if e == nil {
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		gone(e.Key())
		return
	}
	var m Machine
	if json.Unmarshal(e.Value(), &m) == nil {
		see(m)
	}
}

// eachKey reads all keys of a small bucket as they are now.
func (q *Queue) eachKey(ctx context.Context, bucket string, see func(key string, value []byte)) error {
	kv, err := q.js.KeyValue(ctx, bucket)
	if err != nil {
		return streamError(err)
	}
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }() // fails only when the connection is gone
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return errors.Join(ctx.Err(), ErrClosed)
			}
			if e == nil {
				return nil
			}
			see(e.Key(), e.Value())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// AddProgress fills in how far running jobs say they are, as their machines announce it.
func (q *Queue) AddProgress(ctx context.Context, views []JobView) error {
	if !slices.ContainsFunc(views, func(v JobView) bool { return v.State == job.Running }) {
		return nil
	}
	machines, err := q.Machines(ctx)
	if err != nil {
		return err
	}
	for i := range views {
		v := &views[i]
		for _, m := range machines {
			if p, said := m.Progress[v.Ref.String()]; said && v.State == job.Running && m.Name == v.Machine {
				v.Progress = &p
			}
		}
	}
	return nil
}
