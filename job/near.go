package job

import (
	"slices"
	"time"
)

// Near is the place that a job would rather have than others: the GPUs on which the job it names in same_gpu_as ran last.
// It is a preference. Until a moment that is written down the job waits for them, then it goes anywhere, and where it
// goes to their machine these GPUs come first.
type Near struct {
	Job     string     `json:"job"`             // whose GPUs they were
	Machine string     `json:"machine"`         // that has them
	Devices []string   `json:"devices"`         // their UUIDs
	Until   *time.Time `json:"until,omitempty"` // it waits for them until then; nil: no longer
}

// NearTo is the place for a job that needs r: where last, the last run of the job it names, was. inService are the GPUs
// that the machine of that run gives out now. nil: nothing is preferred, since there was no run on a GPU, or the GPUs
// failed under it, or are not there, or the job has said itself where it must run.
func NearTo(name string, last Attempt, r Requirements, inService []string, until time.Time) *Near {
	switch {
	case r.GPUs == 0, len(r.GPUIDs) > 0:
		return nil
	case r.Machine != "" && r.Machine != last.Machine:
		return nil
	case last.Outcome == OutcomeGPUFault, last.Outcome == OutcomeMachineLost:
		return nil
	}
	n := &Near{Job: name, Machine: last.Machine, Until: &until}
	for _, uuid := range last.Devices {
		if slices.Contains(inService, uuid) {
			n.Devices = append(n.Devices, uuid)
		}
	}
	if len(n.Devices) == 0 {
		return nil
	}
	return n
}

// Waits reports whether the job waits for the place, whoever looks at what time: it goes elsewhere only once somebody has
// queued it anew.
func (n *Near) Waits() bool { return n != nil && n.Until != nil }

// Over reports whether the job has waited for the place long enough.
func (n *Near) Over(now time.Time) bool { return n.Waits() && !now.Before(*n.Until) }

// Narrow are the requirements while the job waits for the place: these GPUs, or where they are too few, their machine.
func (n *Near) Narrow(r Requirements) Requirements {
	if !n.Waits() {
		return r
	}
	r.Machine = n.Machine
	if len(n.Devices) >= r.GPUs {
		r.GPUIDs = n.Devices
	}
	return r
}

// Anywhere is the same place for a job that waits for it no longer.
func (n *Near) Anywhere() *Near {
	if !n.Waits() {
		return n
	}
	free := *n
	free.Until = nil
	return &free
}

func (s Spec) checkNear(ps *problems) {
	if s.SameGPUAs == "" {
		return
	}
	checkText(ps, "same_gpu_as", s.SameGPUAs, MaxNameLength)
	switch {
	case s.IsLease():
		ps.add("same_gpu_as", "a lease names its GPUs itself: gpu_ids")
	case s.hasTasks():
		ps.add("same_gpu_as", "is for a single job: the tasks of a group would all wait for the same GPU")
	case !s.mayHaveGPUs():
		ps.add("same_gpu_as", "the job asks for no GPU: add gpus: 1, or leave it out")
	case len(s.Resources.GPUIDs) > 0:
		ps.add("same_gpu_as", "contradicts gpu_ids, which names the GPUs already: leave one of them out")
	}
}
