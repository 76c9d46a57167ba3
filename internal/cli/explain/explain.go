package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// The words for why a job waits. Those of a machine (Resources, Memory, Foreign, GPUUnhealthy, NeverFits, Draining) are
// the worker's own.
const (
	Held         = "Held"
	Backoff      = "Backoff"
	BeginTime    = "BeginTime"
	Dependency   = "Dependency"
	NoWorker     = "NoWorker"
	NeverFits    = string(gpuslots.NeverFits)
	Draining     = string(gpuslots.Draining)
	Quota        = "Quota"
	Reservation  = "Reservation"
	Priority     = "Priority"
	Position     = "Position"
	Resources    = string(gpuslots.Resources)
	Memory       = string(gpuslots.Memory)
	Foreign      = string(gpuslots.Foreign)
	GPUUnhealthy = string(gpuslots.GPUUnhealthy)
)

// Facts are what is known about a waiting job and the fleet.
type Facts struct {
	Job      queue.JobView
	Machines []queue.Machine
	Never    map[string]string // machines that could never run it, by name, and why; where the machine itself has not said so

	Place   queue.Position
	Ahead   []queue.Head // first jobs of lanes in higher bands
	Project queue.ProjectUse

	Reserved queue.Reservation   // for this job; zero: none
	Kept     []queue.Reservation // all there are: for other jobs too
	Running  []Run
	Typical  time.Duration // median run time of its project's last runs; 0: none are known
	TypicalN int           // how many of those
	Group    *queue.JobView

	Now time.Time
}

// Run is a job that runs.
type Run struct {
	Job     string
	Machine string
	Since   time.Time
	Limit   time.Duration // 0: it has none
	GPUs    []string      // UUIDs
}

// Explanation is the answer.
type Explanation struct {
	Version  int         `json:"version"`
	Job      string      `json:"job"`
	State    job.State   `json:"state"`
	Reason   string      `json:"reason,omitempty"`
	Text     string      `json:"text"`
	Position int         `json:"position,omitempty"` // 1 is the next of its lane
	InFront  []string    `json:"in_front,omitempty"`
	Machines []MachineIs `json:"machines,omitempty"`
	Estimate *Estimate   `json:"estimate,omitempty"`
	Sooner   []string    `json:"sooner,omitempty"`
}

// MachineIs is what one machine says to the job.
type MachineIs struct {
	Name   string  `json:"name"`
	Reason string  `json:"reason,omitempty"` // "": it has room
	Text   string  `json:"text"`
	GPUs   []GPUIs `json:"gpus,omitempty"`
}

// GPUIs is how one GPU stands.
type GPUIs struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text"`
}

// Estimate is when the job may start, and on what that rests.
type Estimate struct {
	StartAt time.Time `json:"start_at"`
	Basis   string    `json:"basis"`
}

// Why explains a job.
func Why(f Facts) Explanation {
	v := f.Job
	e := Explanation{Version: 1, Job: v.Ref.String(), State: v.State}
	if v.State != job.Queued && v.State != job.Held {
		e.Text = notWaiting(v, f.Now)
		return e
	}
	e.Machines = f.machines()
	e.Reason, e.Text = reason(f, e.Machines)
	if f.Place.Found {
		e.Position = len(f.Place.InFront) + 1
	}
	for _, h := range f.Ahead {
		e.InFront = append(e.InFront, h.Ref.String())
	}
	for _, ref := range f.Place.InFront {
		e.InFront = append(e.InFront, ref.String())
	}
	if startable(e.Reason) {
		e.Estimate = estimate(f)
	}
	e.Sooner = sooner(f, e)
	return e
}

// startable reports whether the passing of other runs is what a job waits for.
func startable(reason string) bool {
	return !slices.Contains([]string{Held, Backoff, BeginTime, Dependency, NoWorker, NeverFits, Quota}, reason)
}

func notWaiting(v queue.JobView, now time.Time) string {
	switch {
	case v.Tasks != nil && !v.State.Final():
		return fmt.Sprintf("%d of its %d tasks have ended, %d were given to the lanes; berth explain %s.INDEX explains one",
			v.Tasks.Ended, v.Tasks.Count, v.Tasks.Released, v.Ref)
	case v.State == job.Running && v.StartedAt != nil:
		return fmt.Sprintf("it runs on %s since %s", v.Machine, screen.Span(now.Sub(*v.StartedAt)))
	case v.ReasonText != "":
		return fmt.Sprintf("it does not wait: it ended %s: %s", v.State, v.ReasonText)
	}
	return fmt.Sprintf("it does not wait: it is %s", v.State)
}

// reason is the word and the sentence.
func reason(f Facts, all []MachineIs) (string, string) {
	v := f.Job
	if word, text := ownReason(f); word != "" {
		return word, text
	}
	switch {
	case len(f.Machines) == 0:
		return NoWorker, "no machine is connected; it waits until a worker starts"
	case count(all, NeverFits) == len(all):
		return NeverFits, fmt.Sprintf("none of the %s could ever run it: %s", screen.Plural(len(all), "machine"), all[0].Text)
	case overQuota(f.Project, v.Needs.GPUs):
		return Quota, quotaText(f.Project, v)
	}
	if text := throttled(f); text != "" {
		return Position, text
	}
	if f.Reserved.Machine != "" {
		return Resources, fmt.Sprintf("%s keeps %s for it and expects to have them %s", f.Reserved.Machine,
			screen.Plural(len(f.Reserved.GPUs), "GPU"), inText(f.Reserved.FreeAt, f.Now))
	}
	able := len(all) - count(all, NeverFits)
	switch {
	case count(all, Draining) == able:
		return Draining, fmt.Sprintf("every machine that could run it (%d) drains and takes no new jobs", able)
	case len(f.Ahead) > 0:
		return Priority, fmt.Sprintf("%s with higher priority wait too, job %s first", screen.Plural(len(f.Ahead), "kind")+" of jobs", f.Ahead[0].Ref)
	case f.near() != nil && count(all, "") == 0:
		return Resources, nearText(f.near(), f.Now)
	case len(f.Place.InFront) > 0:
		return Position, fmt.Sprintf("%s of its project that want the same are in front of it, job %s first",
			screen.Plural(len(f.Place.InFront), "job"), f.Place.InFront[0])
	case count(all, "") > 0:
		return Position, "a machine has room and it is next: it is about to start"
	}
	return commonest(all)
}

// ownReason is what the job's record or spec says by itself.
func ownReason(f Facts) (string, string) {
	v := f.Job
	spec := job.Spec{}
	if v.Job != nil {
		spec = v.Job.Spec
	}
	rec := v.Record
	switch {
	case v.State == job.Held:
		return Held, orText(v.ReasonText, "it is held") + "; berth release " + v.Ref.String() + " lets it go on"
	case rec != nil && rec.NotBefore != nil && rec.NotBefore.After(f.Now):
		return Backoff, fmt.Sprintf("%s; its next try is due %s", orText(v.ReasonText, "it is tried again after a pause"), inText(*rec.NotBefore, f.Now))
	case v.Reason == Dependency:
		return Dependency, orText(v.ReasonText, "it waits for other jobs")
	case spec.Begin != nil && spec.Begin.After(f.Now):
		return BeginTime, fmt.Sprintf("it is not to begin before %s, %s", spec.Begin.Local().Format("2006-01-02 15:04"), inText(*spec.Begin, f.Now))
	case rec == nil && v.Reason != "" && v.Reason != Backoff:
		return v.Reason, v.ReasonText
	}
	return "", ""
}

func overQuota(p queue.ProjectUse, gpus int) bool {
	return p.MaxGPUs != nil && gpus > 0 && p.GPUs+gpus > *p.MaxGPUs
}

func quotaText(p queue.ProjectUse, v queue.JobView) string {
	return fmt.Sprintf("the runs of project %s hold %d of %d GPUs, this one needs %d", v.Project, p.GPUs, *p.MaxGPUs, v.Needs.GPUs)
}

// throttled says that the job's own group holds it back.
func throttled(f Facts) string {
	g := f.Group
	if g == nil || g.Tasks == nil || f.Place.Found || g.Tasks.Released >= g.Tasks.Count {
		return ""
	}
	return fmt.Sprintf("its group gives its tasks to the lanes bit by bit: %d of %d so far, %d have ended", g.Tasks.Released, g.Tasks.Count, g.Tasks.Ended)
}

func count(all []MachineIs, reason string) (n int) {
	for _, m := range all {
		if m.Reason == reason {
			n++
		}
	}
	return n
}

// commonest is what most of the machines say that could run it at another time.
func commonest(all []MachineIs) (string, string) {
	best := MachineIs{Reason: Resources}
	for _, m := range all {
		if m.Reason == NeverFits || m.Reason == Draining {
			continue
		}
		if best.Name == "" || count(all, m.Reason) > count(all, best.Reason) {
			best = m
		}
	}
	able := len(all) - count(all, NeverFits)
	if able == 1 {
		return best.Reason, best.Name + ": " + best.Text
	}
	return best.Reason, fmt.Sprintf("none of the %d machines that could run it has room now; %s: %s", able, best.Name, best.Text)
}

func orText(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func inText(at, now time.Time) string {
	if !at.After(now) {
		return "now"
	}
	return "in " + screen.Span(at.Sub(now))
}

// machines says how each one stands to the job, those with room first.
func (f Facts) machines() []MachineIs {
	shape, near := string(job.ShapeOf(f.Job.Asks()).ID), f.near()
	var all []MachineIs
	for _, m := range f.Machines {
		is := MachineIs{Name: m.Name}
		never, unfit := f.never(m)
		switch {
		case unfit:
			is.Reason, is.Text = NeverFits, never
		case m.Draining:
			is.Reason, is.Text = Draining, "drains: it finishes what it runs and takes no more"
		case near != nil && m.Name != near.Machine:
			is.Reason, is.Text = Resources, fmt.Sprintf("is not asked before %s: the job would rather be where job %s ran", clock(*near.Until), near.Job)
		case m.Refusals[shape] != "":
			is.Reason, is.Text = orText(m.Reasons[shape], Resources), m.Refusals[shape]
		default:
			is.Reason, is.Text = f.besideReservations(m)
		}
		if f.Job.Needs.GPUs > 0 {
			for _, g := range m.GPUs {
				is.GPUs = append(is.GPUs, GPUIs{Index: g.Index, UUID: g.UUID, Name: g.Name, State: g.State, Text: gpuText(g)})
			}
		}
		all = append(all, is)
	}
	order := []string{"", Reservation, Resources, Memory, Foreign, GPUUnhealthy, Draining, NeverFits}
	slices.SortStableFunc(all, func(a, b MachineIs) int { return slices.Index(order, a.Reason) - slices.Index(order, b.Reason) })
	return all
}

// besideReservations says whether a machine that has room for the job has it beside what it keeps for a wide one. The kept
// GPUs are for jobs that say they end before they are needed.
func (f Facts) besideReservations(m queue.Machine) (reason, text string) {
	i := slices.IndexFunc(f.Kept, func(r queue.Reservation) bool { return r.Machine == m.Name && r.Job != f.Job.Ref.String() })
	if i < 0 || f.Job.Needs.GPUs == 0 {
		return "", "has room"
	}
	kept, free := f.Kept[i], 0
	for _, g := range m.GPUs {
		if g.State == "ready" && g.Active < max(g.Slots, 1) && !slices.Contains(kept.GPUs, g.UUID) {
			free++
		}
	}
	limit := f.Job.TimeLimit.Std()
	if limit == 0 {
		limit = f.Project.DefaultTimeLimit.Std()
	}
	if free >= f.Job.Needs.GPUs || limit > 0 && !f.Now.Add(limit).After(kept.FreeAt) {
		return "", "has room"
	}
	return Reservation, fmt.Sprintf("keeps %s for job %s, which it expects to start %s: only jobs whose time limit ends before that may have them",
		screen.Plural(len(kept.GPUs), "GPU"), kept.Job, inText(kept.FreeAt, f.Now))
}

// near is the place the job waits for, if it does.
func (f Facts) near() *job.Near {
	if rec := f.Job.Record; rec != nil && f.Job.State == job.Queued && rec.Near.Waits() {
		return rec.Near
	}
	return nil
}

// nearText says where the job would rather be, and for how long.
func nearText(n *job.Near, now time.Time) string {
	return fmt.Sprintf("it would rather have a GPU that job %s had (%s on %s, same_gpu_as), and goes anywhere %s",
		n.Job, strings.Join(n.Devices, ", "), n.Machine, inText(*n.Until, now))
}

func clock(t time.Time) string { return t.Local().Format("15:04:05") }

// never is why a machine could never run the job, by its own word or else by what it has.
func (f Facts) never(m queue.Machine) (why string, unfit bool) {
	if why = m.Never[string(job.ShapeOf(f.Job.Needs).ID)]; why == "" {
		why = f.Never[m.Name]
	}
	return why, why != ""
}

// gpuText is one GPU in words: who holds it, what is free, what is in the way.
func gpuText(g queue.GPU) string {
	var parts []string
	if len(g.Jobs) > 0 {
		parts = append(parts, "held by job "+strings.Join(g.Jobs, ", "))
	} else if g.Active > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d slots taken", g.Active, g.Slots))
	} else {
		parts = append(parts, "nobody's")
	}
	if g.MemoryFreeMB != nil {
		parts = append(parts, screen.Memory(*g.MemoryFreeMB)+" of "+screen.Memory(g.MemoryTotalMB)+" free")
	}
	if len(g.Foreign) > 0 {
		parts = append(parts, "others on it: "+strings.Join(g.Foreign, ", "))
	}
	if g.Why != "" && len(g.Jobs) == 0 {
		parts = append(parts, g.Why)
	}
	return strings.Join(parts, "; ")
}
