package web

import (
	"slices"
	"strings"
	"time"
)

// usage is GPUs over time, by owner: Held[owner][i] is the mean number of GPUs that the owner's runs held from
// From + i*StepSeconds on.
type usage struct {
	Version     int                  `json:"version"`
	From        time.Time            `json:"from"`
	StepSeconds float64              `json:"step_seconds"`
	By          string               `json:"by"`
	Held        map[string][]float64 `json:"held"`
	GPUHours    map[string]float64   `json:"gpu_hours"`
}

const usageSteps = 120

// gpuTime adds up who held GPUs in the time up to now.
func (x *index) gpuTime(by string, back time.Duration, now time.Time) usage {
	x.mu.RLock()
	defer x.mu.RUnlock()
	u := usage{Version: 1, From: now.Add(-back), StepSeconds: back.Seconds() / usageSteps, By: by, Held: map[string][]float64{}, GPUHours: map[string]float64{}}
	for ref, spans := range x.spans {
		r := x.by[ref.Number]
		if r == nil {
			continue
		}
		owner := r.User
		switch by {
		case "project":
			owner = r.Project
		case "machine":
			owner = r.Machine
			if ref.Task {
				owner = x.tasks[ref.Number][ref.Index].Machine
			}
		}
		for _, s := range spans {
			u.add(owner, x.ours(s), now)
		}
	}
	return u
}

func (u *usage) add(owner string, s span, now time.Time) {
	end := s.end
	if end.IsZero() || end.After(now) {
		end = now
	}
	from := max(0, s.start.Sub(u.From).Seconds())
	to := end.Sub(u.From).Seconds()
	if to <= from {
		return
	}
	held := u.Held[owner]
	if held == nil {
		held = make([]float64, usageSteps)
		u.Held[owner] = held
	}
	u.GPUHours[owner] += float64(len(s.devices)) * (to - from) / 3600
	for i := int(from / u.StepSeconds); i < usageSteps && float64(i)*u.StepSeconds < to; i++ {
		lo, hi := max(from, float64(i)*u.StepSeconds), min(to, float64(i+1)*u.StepSeconds)
		held[i] += float64(len(s.devices)) * (hi - lo) / u.StepSeconds
	}
}

// waiting is how long jobs waited that started since then: median and ninth tenth, in seconds.
type waiting struct {
	Jobs   int     `json:"jobs"`
	Median float64 `json:"median_seconds"`
	P90    float64 `json:"p90_seconds"`
}

func (x *index) waited(since time.Time) waiting {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []float64
	for _, r := range x.rows {
		if began := byOurs(r.StartedAt, x.ahead[r.Machine]); began != nil && began.After(since) && r.Tasks == nil {
			all = append(all, max(0, began.Sub(r.QueuedAt).Seconds()))
		}
	}
	if len(all) == 0 {
		return waiting{}
	}
	slices.Sort(all)
	return waiting{Jobs: len(all), Median: all[len(all)/2], P90: all[len(all)*9/10]}
}

// owners lists the users and projects there are, for the filters.
func (x *index) owners() (users, projects []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	u, p := map[string]bool{}, map[string]bool{}
	for _, r := range x.rows {
		u[r.User], p[r.Project] = true, true
	}
	for name := range u {
		users = append(users, name)
	}
	for name := range p {
		projects = append(projects, name)
	}
	slices.SortFunc(users, strings.Compare)
	slices.SortFunc(projects, strings.Compare)
	return users, projects
}
