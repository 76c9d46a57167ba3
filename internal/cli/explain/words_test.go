package explain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

var now = time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) *time.Time { at := now.Add(d); return &at }

// gpu is one card; busy says by which job it is held.
func gpu(index int, uuid string, freeMB int64, busy ...string) queue.GPU {
	return queue.GPU{
		UUID: uuid, Index: index, Name: "A100", MemoryTotalMB: 24576, MemoryFreeMB: &freeMB,
		Slots: 1, Active: len(busy), State: "ready", Jobs: busy,
	}
}

// facts are those of job 7, which wants two GPUs, on a fleet of one machine with two that are free, where nothing is in
// its way. change puts something there.
func facts(change func(*explain.Facts)) explain.Facts {
	f := explain.Facts{
		Now: now,
		Job: queue.JobView{
			Ref: queue.JobRef(7), Number: 7, Project: "lab", State: job.Queued, Priority: 50,
			Needs: job.Requirements{GPUs: 2}, Job: &job.Job{}, Record: &job.Record{},
		},
		Machines: []queue.Machine{{Name: "m1", GPUs: []queue.GPU{gpu(0, "GPU-a", 24000), gpu(1, "GPU-b", 24000)}}},
		Place:    queue.Position{Found: true},
		Project:  queue.ProjectUse{Project: queue.Project{Name: "lab"}},
	}
	change(&f)
	return f
}

// refuses lets every machine say no to the job for that reason.
func refuses(f *explain.Facts, reason gpuslots.Reason, text string) {
	shape := string(job.ShapeOf(f.Job.Needs).ID)
	for i := range f.Machines {
		f.Machines[i].Refusals = map[string]string{shape: text}
		f.Machines[i].Reasons = map[string]string{shape: string(reason)}
	}
}

// row is a situation and what is said about it.
type row struct {
	change   func(*explain.Facts)
	text     string // of the job, a part
	machine  string // of its machine, a part
	sooner   string // a tip, a part; "": any
	position int
	inFront  string
	basis    string // of the estimate, a part; "": there is none
}

// words has at least one row for every word there is.
var words = map[string][]row{
	explain.Held: {{change: func(f *explain.Facts) {
		f.Job.State, f.Job.ReasonText = job.Held, "held by ada: data is missing"
	}, text: "held by ada: data is missing; berth release 7 lets it go on", sooner: "berth release 7", position: 1}},
	explain.Backoff: {{change: func(f *explain.Facts) {
		f.Job.Record.NotBefore, f.Job.ReasonText = in(90*time.Second), "failed: exit 3"
	}, text: "failed: exit 3; its next try is due in 1m30s", position: 1}},
	explain.BeginTime: {{change: func(f *explain.Facts) { f.Job.Job.Spec.Begin = in(2 * time.Hour) },
		text: "in 2h", position: 1}},
	explain.Dependency: {{change: func(f *explain.Facts) {
		f.Job.Reason, f.Job.ReasonText, f.Place.Found = "Dependency", "it waits until 5 has succeeded", false
	}, text: "it waits until 5 has succeeded"}},
	explain.NoWorker: {{change: func(f *explain.Facts) { f.Machines = nil },
		text: "no machine is connected", sooner: "berth join", position: 1}},
	explain.NeverFits: {{change: func(f *explain.Facts) { f.Never = map[string]string{"m1": "it has 2 GPUs"} },
		text: "none of the 1 machine could ever run it: it has 2 GPUs", machine: "it has 2 GPUs", sooner: "what a machine has", position: 1},
		{change: func(f *explain.Facts) {
			f.Machines[0].Never = map[string]string{string(job.ShapeOf(f.Job.Needs).ID): "by its own word"}
		}, text: "by its own word", machine: "by its own word", position: 1}},
	explain.Draining: {{change: func(f *explain.Facts) { f.Machines[0].Draining = true },
		text: "every machine that could run it (1) drains", machine: "takes no more", position: 1}},
	explain.Quota: {{change: func(f *explain.Facts) {
		limit := 4
		f.Project.MaxGPUs, f.Project.GPUs = &limit, 3
	}, text: "the runs of project lab hold 3 of 4 GPUs, this one needs 2", sooner: "--max-gpus 5", position: 1}},
	explain.Reservation: {{change: func(f *explain.Facts) {
		f.Kept = []queue.Reservation{{Job: "3", Machine: "m1", FreeAt: now.Add(20 * time.Minute), GPUs: []string{"GPU-a"}}}
		f.Job.TimeLimit = job.Duration(time.Hour)
	}, text: "m1: keeps 1 GPU for job 3, which it expects to start in 20m", machine: "only jobs whose time limit ends before that", position: 1}},
	explain.Priority: {{change: func(f *explain.Facts) {
		f.Ahead = []queue.Head{{Ref: queue.JobRef(4)}}
	}, text: "1 kind of jobs with higher priority wait too, job 4 first", machine: "has room", sooner: "-P 67", position: 1, inFront: "4",
		basis: "m1: its GPUs are free now"}},
	explain.Position: {
		{change: func(f *explain.Facts) { f.Place.InFront = []queue.Ref{queue.JobRef(5), queue.TaskRef(6, 1)} },
			text: "2 jobs of its project that want the same are in front of it, job 5 first", machine: "has room", position: 3, inFront: "5 6.1",
			basis: "not counting the 2 in front, whose run time nothing is known about"},
		{change: func(f *explain.Facts) {
			f.Place.InFront = []queue.Ref{queue.JobRef(5)}
			f.Typical, f.TypicalN = 30*time.Minute, 12
		}, text: "1 job of its project", machine: "has room", position: 2, inFront: "5", basis: "1 in front, 30m each (the median of its project's last 12 runs)"},
		{change: func(*explain.Facts) {}, text: "it is about to start", machine: "has room", position: 1, basis: "its GPUs are free now"},
		{change: func(f *explain.Facts) {
			f.Job.Ref, f.Place.Found = queue.TaskRef(7, 40), false
			f.Group = &queue.JobView{Tasks: &queue.TaskCounts{Count: 100, Released: 8, Ended: 2}}
		}, text: "bit by bit: 8 of 100 so far, 2 have ended", machine: "has room", basis: "its GPUs are free now"},
	},
	explain.Resources: {
		{change: func(f *explain.Facts) {
			f.Machines[0].GPUs = []queue.GPU{gpu(0, "GPU-a", 24000, "1"), gpu(1, "GPU-b", 24000, "2")}
			f.Running = []explain.Run{{Job: "1", Machine: "m1", Since: *in(-time.Hour), Limit: 3 * time.Hour, GPUs: []string{"GPU-a"}},
				{Job: "2", Machine: "m1", Since: *in(-time.Hour), Limit: 2 * time.Hour, GPUs: []string{"GPU-b"}}}
			refuses(f, gpuslots.Resources, "both GPUs are taken")
		}, text: "m1: both GPUs are taken", machine: "both GPUs are taken", sooner: "a time limit (-t)", position: 1,
			basis: "m1: job 1 ends at the latest by its time limit of 3h"},
		{change: func(f *explain.Facts) {
			f.Reserved = queue.Reservation{Job: "7", Machine: "m1", FreeAt: now.Add(5 * time.Minute), GPUs: []string{"GPU-a", "GPU-b"}}
			refuses(f, gpuslots.Resources, "both GPUs are taken")
		}, text: "m1 keeps 2 GPUs for it and expects to have them in 5m", machine: "both GPUs are taken", position: 1, basis: "free now"},
		{change: func(f *explain.Facts) {
			f.Job.Record.Near = &job.Near{Job: "3", Machine: "m1", Devices: []string{"GPU-a"}, Until: in(40 * time.Second)}
			f.Job.Needs.GPUs = 1
			f.Machines[0].GPUs[0] = gpu(0, "GPU-a", 24000, "9")
			f.Machines = append(f.Machines, queue.Machine{Name: "m2", GPUs: []queue.GPU{gpu(0, "GPU-c", 24000)}})
			shape := string(job.ShapeOf(f.Job.Asks()).ID)
			f.Machines[0].Refusals = map[string]string{shape: "GPU-a is taken"}
			f.Machines[0].Reasons = map[string]string{shape: explain.Resources}
		}, text: "it would rather have a GPU that job 3 had (GPU-a on m1, same_gpu_as), and goes anywhere in 40s", machine: "GPU-a is taken", position: 1,
			basis: "m1: its GPUs are free now"},
	},
	explain.Memory: {{change: func(f *explain.Facts) { refuses(f, gpuslots.Memory, "20 GiB are promised") },
		text: "m1: 20 GiB are promised", machine: "20 GiB are promised", position: 1, basis: "free now"}},
	explain.Foreign: {{change: func(f *explain.Facts) {
		f.Machines[0].GPUs[0].State, f.Machines[0].GPUs[0].Foreign = "foreign", []string{"python of eve, 18 GiB"}
		refuses(f, gpuslots.Foreign, "others use GPU 0")
	}, text: "m1: others use GPU 0", machine: "others use GPU 0", position: 1}},
	explain.GPUUnhealthy: {{change: func(f *explain.Facts) {
		f.Machines[0].GPUs[0].State, f.Machines[0].GPUs[0].Why = "quarantined", "XID 79"
		refuses(f, gpuslots.GPUUnhealthy, "GPU 0 is quarantined")
	}, text: "m1: GPU 0 is quarantined", machine: "GPU 0 is quarantined", position: 1}},
}

// Each word: its sentence, what the machine says, the place in the order, who is in front, the estimate with its basis.
func TestWords(t *testing.T) {
	t.Parallel()
	for word, rows := range words {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			for _, r := range rows {
				check(t, word, r)
			}
		})
	}
}

func check(t *testing.T, word string, r row) {
	t.Helper()
	e := explain.Why(facts(r.change))
	if e.Reason != word || !strings.Contains(e.Text, r.text) {
		t.Errorf("it says %s (%s), want %s (%s)", e.Reason, e.Text, word, r.text)
	}
	if e.Position != r.position || strings.Join(e.InFront, " ") != r.inFront {
		t.Errorf("%s: position %d behind %v, want %d behind %q", r.text, e.Position, e.InFront, r.position, r.inFront)
	}
	if word == explain.NoWorker != (len(e.Machines) == 0) {
		t.Fatalf("%s: %d machines", r.text, len(e.Machines))
	}
	for i, m := range e.Machines {
		if m.Text == "" || len(m.GPUs) == 0 || i == 0 && m.Name == "m1" && !strings.Contains(m.Text, r.machine) {
			t.Errorf("%s: machine %+v, want %q", r.text, m, r.machine)
		}
		for _, g := range m.GPUs {
			if g.UUID == "" || g.State == "" || g.Text == "" {
				t.Errorf("%s: GPU %+v", r.text, g)
			}
		}
	}
	switch {
	case r.basis == "" && e.Estimate != nil:
		t.Errorf("%s: it may start %s, by this: %s; nothing is known", r.text, e.Estimate.StartAt, e.Estimate.Basis)
	case r.basis != "" && (e.Estimate == nil || e.Estimate.StartAt.Before(now) || !strings.Contains(e.Estimate.Basis, r.basis)):
		t.Errorf("%s: the estimate is %+v, want it by %q", r.text, e.Estimate, r.basis)
	}
	if !strings.Contains(strings.Join(e.Sooner, "\n"), r.sooner) {
		t.Errorf("%s: sooner: %v, want %q", r.text, e.Sooner, r.sooner)
	}
}

// A word that is added to the code needs a row here and a line in docs/explain.md.
func TestEveryWordHasARow(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for file, typed := range map[string]string{"explain.go": "", "../../../gpuslots/refusal.go": "Reason"} {
		for _, word := range constants(t, file, typed) {
			found++
			if len(words[word]) == 0 {
				t.Errorf("%s: the word %s has no row", file, word)
			}
			if !strings.Contains(string(page), "\n| "+word+" |") {
				t.Errorf("the word %s is not on docs/explain.md", word)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d words were found in the code", found)
	}
}

// constants are the names of a file's constants of a type ("" is none); each word is its constant's name.
func constants(t *testing.T, file, typed string) (names []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range tree.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			of := ""
			if id, ok := spec.Type.(*ast.Ident); ok {
				of = id.Name
			}
			for _, n := range spec.Names {
				if of == typed && n.IsExported() {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// The estimate is of the machine that is free soonest, by what is known, and says what it rests on; where nothing is
// known there is none.
func TestEstimate(t *testing.T) {
	t.Parallel()
	run := func(name, machine, uuid string, limit time.Duration) explain.Run {
		return explain.Run{Job: name, Machine: machine, Since: *in(-time.Hour), Limit: limit, GPUs: []string{uuid}}
	}
	two := func(f *explain.Facts) {
		f.Job.Needs.GPUs = 1
		f.Machines = []queue.Machine{
			{Name: "m1", GPUs: []queue.GPU{gpu(0, "GPU-a", 24000, "1")}},
			{Name: "m2", GPUs: []queue.GPU{gpu(0, "GPU-b", 24000, "2")}},
		}
		f.Running = []explain.Run{run("1", "m1", "GPU-a", 5*time.Hour), run("2", "m2", "GPU-b", 3*time.Hour)}
	}
	for name, c := range map[string]struct {
		change func(*explain.Facts)
		in     time.Duration // 0 is now, negative: no estimate
		basis  string
	}{
		"the machine that is free first": {two, 2 * time.Hour, "m2: job 2 ends at the latest by its time limit of 3h"},
		"the usual run is shorter": {func(f *explain.Facts) { two(f); f.Typical, f.TypicalN = 90*time.Minute, 4 }, 30 * time.Minute,
			"job 1 ends after the usual 1h30m (the median of its project's last 4 runs)"},
		"it runs longer than usual already": {func(f *explain.Facts) { two(f); f.Typical, f.TypicalN = time.Minute, 4 }, 2 * time.Hour, "by its time limit"},
		"not on one that drains":            {func(f *explain.Facts) { two(f); f.Machines[1].Draining = true }, 4 * time.Hour, "m1: job 1"},
		"not on one that never could":       {func(f *explain.Facts) { two(f); f.Never = map[string]string{"m2": "too small"} }, 4 * time.Hour, "m1: job 1"},
		"over its limit: any moment":        {func(f *explain.Facts) { two(f); f.Running[1].Limit = time.Minute }, 0, "job 2 ends at the latest"},
		"both need each other's GPU": {func(f *explain.Facts) {
			two(f)
			f.Job.Needs.GPUs = 2
			f.Machines = []queue.Machine{{Name: "m1", GPUs: []queue.GPU{gpu(0, "GPU-a", 24000, "1"), gpu(1, "GPU-b", 24000, "2")}}}
			f.Running[1].Machine = "m1"
		}, 4 * time.Hour, "job 1"},
		"those in front have their turn": {func(f *explain.Facts) {
			two(f)
			f.Typical, f.TypicalN = 90*time.Minute, 4
			f.Place.InFront = []queue.Ref{queue.JobRef(3), queue.JobRef(4), queue.JobRef(5)}
		}, 2 * time.Hour, "3 in front, 1h30m each"},

		"neither limit nor history":        {func(f *explain.Facts) { two(f); f.Running[0].Limit, f.Running[1].Limit = 0, 0 }, -1, ""},
		"held by somebody who is not seen": {func(f *explain.Facts) { two(f); f.Running = nil }, -1, ""},
		"foreign work on both": {func(f *explain.Facts) {
			two(f)
			f.Machines[0].GPUs[0].State, f.Machines[1].GPUs[0].State = "foreign", "foreign"
		}, -1, ""},
		"a CPU job": {func(f *explain.Facts) { two(f); f.Job.Needs.GPUs = 0 }, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := explain.Why(facts(c.change)).Estimate
			switch {
			case c.in < 0 && e != nil:
				t.Errorf("nothing is known, and it says %s by %s", e.StartAt.Sub(now), e.Basis)
			case c.in >= 0 && (e == nil || e.StartAt.Sub(now) != c.in || !strings.Contains(e.Basis, c.basis)):
				t.Errorf("%+v, want in %s by %q", e, c.in, c.basis)
			}
		})
	}
}

// A job that ends before the kept GPUs are needed has room on them, and so has one that finds others free.
func TestRoomBesideReservations(t *testing.T) {
	t.Parallel()
	kept := func(limit, projectLimit time.Duration, gpus int, reserved ...string) func(*explain.Facts) {
		return func(f *explain.Facts) {
			f.Kept = []queue.Reservation{{Job: "3", Machine: "m1", FreeAt: now.Add(time.Hour), GPUs: reserved}}
			f.Job.TimeLimit, f.Project.DefaultTimeLimit, f.Job.Needs.GPUs = job.Duration(limit), job.Duration(projectLimit), gpus
		}
	}
	for name, c := range map[string]struct {
		change func(*explain.Facts)
		want   string
	}{
		"no limit":                     {kept(0, 0, 2, "GPU-a"), explain.Reservation},
		"too long":                     {kept(2*time.Hour, 0, 2, "GPU-a"), explain.Reservation},
		"ends in time":                 {kept(time.Hour, 0, 2, "GPU-a"), explain.Position},
		"its project's limit":          {kept(0, time.Hour, 2, "GPU-a"), explain.Position},
		"its own limit counts first":   {kept(2*time.Hour, time.Minute, 2, "GPU-a"), explain.Reservation},
		"another GPU is free":          {kept(0, 0, 1, "GPU-a"), explain.Position},
		"none is":                      {kept(0, 0, 1, "GPU-a", "GPU-b"), explain.Reservation},
		"the reservation is its own":   {func(f *explain.Facts) { kept(0, 0, 2, "GPU-a")(f); f.Kept[0].Job = "7" }, explain.Position},
		"it is of another machine":     {func(f *explain.Facts) { kept(0, 0, 2, "GPU-a")(f); f.Kept[0].Machine = "m2" }, explain.Position},
		"a job without GPUs goes by":   {kept(0, 0, 0, "GPU-a", "GPU-b"), explain.Position},
		"what is free is foreign":      {func(f *explain.Facts) { kept(0, 0, 1, "GPU-a")(f); f.Machines[0].GPUs[1].State = "foreign" }, explain.Reservation},
		"what is free is held already": {func(f *explain.Facts) { kept(0, 0, 1, "GPU-a")(f); f.Machines[0].GPUs[1].Active = 1 }, explain.Reservation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if e := explain.Why(facts(c.change)); e.Reason != c.want {
				t.Errorf("%s (%s), want %s", e.Reason, e.Text, c.want)
			}
		})
	}
}

func TestWhatDoesNotWait(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*queue.JobView){
		"it runs on m1 since 1h":                    func(v *queue.JobView) { v.State, v.Machine, v.StartedAt = job.Running, "m1", in(-time.Hour) },
		"it does not wait: it ended failed: exit 3": func(v *queue.JobView) { v.State, v.ReasonText = job.Failed, "exit 3" },
		"it does not wait: it is succeeded":         func(v *queue.JobView) { v.State = job.Succeeded },
		"2 of its 9 tasks have ended, 4 were given to the lanes; berth explain 7.INDEX explains one": func(v *queue.JobView) {
			v.State, v.Tasks = job.Running, &queue.TaskCounts{Count: 9, Released: 4, Ended: 2}
		},
	} {
		e := explain.Why(facts(func(f *explain.Facts) { change(&f.Job) }))
		if e.Text != want || e.Reason != "" || e.Machines != nil {
			t.Errorf("%+v, want %q", e, want)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, all := range map[time.Duration][]time.Duration{0: nil, 3: {3}, 5: {9, 1, 5}, 7: {1, 7, 3, 9}} {
		if got := explain.Median(all); got != want {
			t.Errorf("%v: %v, want %v", all, got, want)
		}
	}
}
