package lease

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner/proc"
)

// wish is what somebody wants to lease, as flags.
type wish struct {
	set *pflag.FlagSet

	gpus          int
	memory        job.Memory
	models        []string
	minCapability string
	ids           []string
	share         string
	slots         int
	machine       string

	name, project string
	priority      int
	lasts         span
	wait          span
	pid           int
}

func bindWish(set *pflag.FlagSet) *wish {
	w := &wish{set: set, lasts: span{d: job.DefaultLease.Std()}, wait: span{forever: true}}
	set.SortFlags = false
	set.IntVarP(&w.gpus, "gpus", "g", 1, "how many")
	set.VarP((*memory)(&w.memory), "gpu-memory", "m", "memory free on each, 20Gi")
	set.StringSliceVar(&w.models, "gpu-model", nil, "models that will do: A100,H100")
	set.StringVar(&w.minCapability, "min-capability", "", "least CUDA compute capability: 8.0")
	set.StringSliceVar(&w.ids, "gpu-ids", nil, "these GPUs and no others: UUIDs or indexes")
	set.StringVar(&w.share, "share", "", "exclusive (default), or shared with others that say so")
	set.IntVar(&w.slots, "slots", 0, "slots to take on each shared GPU")
	set.Var(&w.lasts, "for", "release it after this long; 0: never")
	set.Var(&w.wait, "wait", "give up after this long; 0: answer at once (default: wait for ever)")
	set.StringVarP(&w.name, "name", "J", "", "a name for people")
	set.StringVarP(&w.project, "project", "p", "", "the project it counts for")
	set.IntVarP(&w.priority, "priority", "P", job.DefaultPriority, "0 to 100, more is sooner")
	set.Lookup("wait").DefValue = ""
	return w
}

// check says what is wrong with the wish, whatever the machine.
func (w *wish) check(env cli.Env) error {
	if err := job.Validate(w.spec(env)); err != nil {
		return exit.With(exit.Usage, err)
	}
	if w.pid == 0 {
		return nil
	}
	_, err := processOf(w.pid)
	return err
}

func (w *wish) spec(env cli.Env) job.Spec {
	project, term := w.project, job.Duration(w.lasts.d)
	if project == "" {
		project = cli.Me(env).Project
	}
	spec := job.Spec{
		Kind: job.KindLease, Name: w.name, Project: project, Lease: &job.Lease{For: &term},
		Resources: job.Resources{
			GPUs: job.CountOf(w.count()), GPUMemory: w.memory, GPUModels: w.models, MinCapability: w.minCapability,
			GPUIDs: w.ids, Share: job.Share(w.share), Slots: w.slots,
		},
	}
	if w.set.Changed("priority") {
		spec.Priority = &w.priority
	}
	return spec
}

// job is the lease as a job for that machine.
func (w *wish) job(env cli.Env, at place) (job.Job, error) {
	spec := w.spec(env)
	spec.Resources.Machine = at.Name
	if err := w.processes(spec.Lease, at); err != nil {
		return job.Job{}, err
	}
	return job.Job{
		Version: job.Version, Project: spec.Project, User: cli.Me(env).User, UserClaimed: true, SubmittedAt: env.Now().UTC(), SubmitHost: env.Host,
		Spec: spec, Requirements: w.requirements(at.Name),
	}, nil
}

func (w *wish) count() int {
	if len(w.ids) > 0 && !w.set.Changed("gpus") {
		return len(w.ids)
	}
	return w.gpus
}

func (w *wish) requirements(machine string) job.Requirements {
	mb, _ := w.memory.MB()
	return job.Requirements{
		GPUs: w.count(), GPUMemoryMB: mb, GPUModels: w.models, MinCapability: w.minCapability, GPUIDs: w.ids,
		Share: job.Share(w.share), Slots: w.slots, Machine: machine, Method: "explicit", Why: "a lease",
	}
}

// processes names who asks and what the lease ends with, where the worker can see them.
func (w *wish) processes(l *job.Lease, at place) error {
	if at.pids {
		l.Asker, _ = processOf(os.Getpid()) // without it nobody notices that we were killed
	}
	switch {
	case w.pid == 0:
		return nil
	case !at.here:
		return exit.Errorf(exit.Usage, "--pid %d is a process of this machine, the lease is on %s", w.pid, at.Name).
			Hinted("leave --pid out, and release it yourself")
	case !at.pids:
		return exit.Errorf(exit.Usage, "--pid %d: the worker on %s runs in another container and sees other processes", w.pid, at.Name).
			Hinted("start the worker in the host's pid namespace, or leave --pid out")
	}
	p, err := processOf(w.pid)
	l.Process = p
	return err
}

func processOf(pid int) (*job.Process, error) {
	stat, err := proc.Read(pid)
	if err != nil || stat.Zombie() {
		return nil, exit.Errorf(exit.Usage, "--pid %d: there is no such process", pid)
	}
	return &job.Process{PID: pid, Start: int(stat.Start), Boot: proc.BootID()}, nil
}

// span is a duration in which 0 needs no unit.
type span struct {
	d       time.Duration
	forever bool // --wait that was not given
}

func (s *span) Set(text string) error {
	if strings.TrimSpace(text) == "0" {
		*s = span{}
		return nil
	}
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("want for example 30m, 8h, or 0")
	}
	d, err := job.ParseDuration(text)
	*s = span{d: d.Std()}
	return err
}

func (s *span) Type() string { return "TIME" }
func (s *span) String() string {
	if s == nil || s.forever {
		return ""
	}
	return job.Duration(s.d).String()
}

// memory makes a job.Memory a flag.
type memory job.Memory

func (m *memory) Set(text string) error { return (*job.Memory)(m).UnmarshalText([]byte(text)) }
func (m *memory) Type() string          { return "SIZE" }
func (m *memory) String() string        { return (*job.Memory)(m).String() }
