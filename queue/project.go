package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/job"
)

// Project is what an operator has set for a project. What is not set is absent: no limit, weight 1.
type Project struct {
	Version          int          `json:"version"`
	Name             string       `json:"name"`
	MaxGPUs          *int         `json:"max_gpus,omitempty"`   // its runs may hold together
	MaxQueued        *int         `json:"max_queued,omitempty"` // jobs and tasks that may wait
	Weight           *float64     `json:"weight,omitempty"`     // its share of the fleet, beside others with 1
	DefaultTimeLimit job.Duration `json:"default_time_limit,omitempty"`
	By               string       `json:"by"`
	At               time.Time    `json:"at"`
}

// EffectiveWeight is the weight, 1 where none is set.
func (p Project) EffectiveWeight() float64 {
	if p.Weight == nil {
		return 1
	}
	return *p.Weight
}

// ProjectUse is a project with what it holds of its quota.
type ProjectUse struct {
	Project
	GPUs int `json:"gpus"` // its runs hold, as far as they are counted: those of projects with a limit are
}

// The keys of BucketProjects.
const (
	prefixProjectSet  = "set."  // <project>: Project
	prefixProjectHeld = "held." // <project>: heldGPUs
)

// Project reads the settings of a project; a zero Project with its name where none were made.
func (q *Queue) Project(ctx context.Context, name string) (ProjectUse, error) {
	p, _, err := q.readProject(ctx, name)
	if err != nil {
		return ProjectUse{Project: p}, err
	}
	held, _, err := q.readHeld(ctx, name)
	return ProjectUse{p, held.total()}, err
}

func (q *Queue) readProject(ctx context.Context, name string) (Project, uint64, error) {
	p := Project{Version: job.Version, Name: name}
	if err := checkToken("project", name); err != nil {
		return p, 0, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	rev, err := q.readKey(ctx, BucketProjects, prefixProjectSet+name, &p)
	return p, rev, err
}

// readKey decodes a key, read from the leader; value is left as it is where there is none.
func (q *Queue) readKey(ctx context.Context, bucket, key string, value any) (rev uint64, err error) {
	var s *stored
	err = retry(ctx, func() (err error) {
		s, err = q.getLast(ctx, "KV_"+bucket, "$KV."+bucket+"."+key, true)
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("%s/%s: %w", bucket, key, err)
	case isMarker(s):
		return s.Seq, nil
	}
	if err := json.Unmarshal(s.Data, value); err != nil {
		return s.Seq, fmt.Errorf("%s/%s is not readable: %w", bucket, key, err)
	}
	return s.Seq, nil
}

// SetProject changes the settings of a project. Workers know within moments; what runs goes on, what it holds counts.
func (q *Queue) SetProject(ctx context.Context, name, by string, edit func(*Project)) (Project, error) {
	for {
		p, rev, err := q.readProject(ctx, name)
		if err != nil {
			return p, err
		}
		edit(&p)
		if err := p.check(); err != nil {
			return p, err
		}
		p.By, p.At = by, q.now().UTC()
		body, err := json.Marshal(p)
		if err != nil {
			return p, err
		}
		_, err = q.casKey(ctx, BucketProjects, prefixProjectSet+name, body, rev, 0)
		if errors.Is(err, errConflict) {
			continue
		}
		if err == nil {
			q.noteDeed(ctx, Event{Kind: EventProject, Project: name, By: by, Text: string(body)})
		}
		return p, err
	}
}

func (p Project) check() error {
	const most = 1 << 20
	switch {
	case p.MaxGPUs != nil && (*p.MaxGPUs < 0 || *p.MaxGPUs > most):
		return fmt.Errorf("%w: max GPUs %d: want 0 to %d", ErrBadRequest, *p.MaxGPUs, most)
	case p.MaxQueued != nil && (*p.MaxQueued < 0 || *p.MaxQueued > 1<<30):
		return fmt.Errorf("%w: max queued %d: want 0 to %d", ErrBadRequest, *p.MaxQueued, 1<<30)
	case p.Weight != nil && !(*p.Weight >= 0.01 && *p.Weight <= 100):
		return fmt.Errorf("%w: weight %v: want 0.01 to 100", ErrBadRequest, *p.Weight)
	case p.DefaultTimeLimit < 0:
		return fmt.Errorf("%w: the default time limit is negative", ErrBadRequest)
	}
	return nil
}

// ProjectList lists the projects that have settings, by name.
func (q *Queue) ProjectList(ctx context.Context) ([]ProjectUse, error) {
	var all []ProjectUse
	gpus := map[string]int{}
	err := q.eachKey(ctx, BucketProjects, func(key string, value []byte) {
		if name, ok := strings.CutPrefix(key, prefixProjectHeld); ok {
			var h heldGPUs
			if json.Unmarshal(value, &h) == nil {
				gpus[name] = h.total()
			}
			return
		}
		var p ProjectUse
		if json.Unmarshal(value, &p.Project) == nil {
			all = append(all, p)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("projects: %w", err)
	}
	for i := range all {
		all[i].GPUs = gpus[all[i].Name]
	}
	slices.SortFunc(all, func(a, b ProjectUse) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// ErrQuota says that a project's limit is reached.
var ErrQuota = errors.New("the project's quota is used up")

// MayQueue says whether a project may submit so many more jobs and tasks, and whether one that needs so many GPUs could
// ever start. It counts what waits: two who submit at the same moment may both be let in.
func (q *Queue) MayQueue(ctx context.Context, project string, more, gpus int) error {
	p, _, err := q.readProject(ctx, project)
	if err != nil {
		return err
	}
	p.Name = project
	if err := p.mayHold(gpus); err != nil || p.MaxQueued == nil {
		return err
	}
	waiting, err := q.waitingOf(ctx, project, *p.MaxQueued-more)
	if err != nil {
		return err
	}
	return p.mayQueue(waiting, more)
}

// mayHold refuses a job that alone is wider than all of the project's runs may be together.
func (p Project) mayHold(gpus int) error {
	if p.MaxGPUs != nil && gpus > *p.MaxGPUs {
		return fmt.Errorf("%w: it needs %d GPUs and the runs of project %s may hold %d together", ErrQuota, gpus, p.Name, *p.MaxGPUs)
	}
	return nil
}

// mayQueue refuses so many more jobs and tasks beside those that wait.
func (p Project) mayQueue(waiting, more int) error {
	if p.MaxQueued != nil && waiting+more > *p.MaxQueued {
		return fmt.Errorf("%w: project %s has %d jobs and tasks waiting, %d more are over its limit of %d", ErrQuota, p.Name, waiting, more, *p.MaxQueued)
	}
	return nil
}

// waitingOf counts the jobs and tasks of a project that have not ended and are not single jobs that run, until there are
// more than enough.
func (q *Queue) waitingOf(ctx context.Context, project string, enough int) (int, error) {
	n := 0
	page := Page{Limit: listWindow}
	for {
		views, next, err := q.List(ctx, Filter{Project: project, States: []job.State{job.Queued, job.Held, job.Running}}, page)
		if err != nil {
			return n, err
		}
		for _, v := range views {
			switch {
			case v.Tasks != nil:
				n += v.Tasks.Count - v.Tasks.Ended
			case v.State != job.Running:
				n++
			}
		}
		if next == 0 || n > enough {
			return n, nil
		}
		page.Before = next
	}
}
