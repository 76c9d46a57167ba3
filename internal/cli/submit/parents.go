package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// parents are the flags that make a job wait for others.
type parents struct {
	afterOK, after []string
	slurm          string
	ifFails        string
	sameGPUAs      string
}

func (f *flags) bindParents() {
	s := f.set
	s.StringSliceVar(&f.parents.afterOK, "after-ok", nil, "start when `ID`s have succeeded: number, task, range, name; 'A|B' is either")
	s.StringSliceVar(&f.parents.after, "after", nil, "start when `ID`s have ended, however they did")
	s.StringVar(&f.parents.ifFails, "if-parent-fails", "", "cancel (default), or wait: a retry of the parent may succeed")
	s.StringVar(&f.parents.sameGPUAs, "same-gpu-as", "", "rather on the GPU that job `ID` ran on last; after a minute, anywhere")
	s.StringVar(&f.parents.slurm, "dependency", "", "the same as Slurm writes it: `afterok:ID[:ID],afterany:ID`; ? for , is either")
}

// applyParents puts the flags about other jobs on top of a spec: they add to what it waits for.
func (f *flags) applyParents(s *job.Spec) error {
	for kind, words := range map[string][]string{"after-ok:": f.parents.afterOK, "after:": f.parents.after} {
		for _, w := range words {
			var d job.Dependency
			if err := d.UnmarshalText([]byte(kind + w)); err != nil {
				return exit.With(exit.Usage, err)
			}
			s.DependsOn = append(s.DependsOn, d)
		}
	}
	if f.given("dependency") {
		all, err := slurmDependency(f.parents.slurm)
		if err != nil {
			return exit.Errorf(exit.Usage, "--dependency %q: %w", f.parents.slurm, err)
		}
		s.DependsOn = append(s.DependsOn, all...)
	}
	put(f, "same-gpu-as", &s.SameGPUAs, f.parents.sameGPUAs)
	put(f, "if-parent-fails", &s.IfParentFails, f.parents.ifFails)
	return nil
}

// slurmDependency reads afterok:12:13,afterany:14 (all of them) and afterok:12?afterok:13 (any of them).
func slurmDependency(text string) ([]job.Dependency, error) {
	if strings.Contains(text, ",") && strings.Contains(text, "?") {
		return nil, errors.New("either , (all of them) or ? (any of them)")
	}
	either := strings.Contains(text, "?")
	var all []job.Dependency
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '?' }) {
		kind, list, _ := strings.Cut(part, ":")
		if kind != "afterok" && kind != "afterany" {
			return nil, fmt.Errorf("%q: afterok and afterany are known", kind)
		}
		for id := range strings.SplitSeq(list, ":") {
			if id == "" {
				return nil, fmt.Errorf("%q names no job", part)
			}
			all = append(all, job.Dependency{Jobs: []string{id}, AnyEnd: kind == "afterany"})
		}
	}
	if !either || len(all) < 2 {
		return all, nil
	}
	one := job.Dependency{AnyEnd: all[0].AnyEnd}
	for _, d := range all {
		if d.AnyEnd != one.AnyEnd {
			return nil, errors.New("? joins conditions of one kind")
		}
		one.Jobs = append(one.Jobs, d.Jobs...)
	}
	return []job.Dependency{one}, nil
}

// family is the jobs of one submit that name each other: parents come before children.
type family struct {
	jobs   []prepared
	byName map[string]int
	order  []int
	number map[string]uint64 // of those that are queued
}

// newFamily finds the order, or says who waits for himself. A name that two jobs share names neither.
func newFamily(jobs []prepared) (*family, error) {
	f := &family{jobs: jobs, byName: map[string]int{}, number: map[string]uint64{}}
	for i, p := range jobs {
		name := p.job.Spec.Name
		if _, twice := f.byName[name]; twice {
			f.byName[name] = -1
		} else if name != "" {
			f.byName[name] = i
		}
	}
	state := make([]int, len(jobs)) // 1: on the way to it, 2: in order
	for i := range jobs {
		if err := f.visit(i, state, nil); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *family) visit(i int, state []int, path []string) error {
	path = append(path, f.jobs[i].job.Spec.Name)
	switch state[i] {
	case 1:
		return exit.Errorf(exit.Spec, "these jobs wait for each other: %s", strings.Join(path, " -> "))
	case 2:
		return nil
	}
	state[i] = 1
	for _, d := range named(f.jobs[i].job.Spec) {
		for _, word := range d.Jobs {
			parent, ours := f.byName[word]
			switch {
			case ours && parent < 0:
				return exit.Errorf(exit.Spec, "%s: two of these jobs have that name, so it names neither", word)
			case ours:
				if err := f.visit(parent, state, path); err != nil {
					return err
				}
			}
		}
	}
	state[i] = 2
	f.order = append(f.order, i)
	return nil
}

// named are the jobs that come before one: those it waits for, and the one whose GPUs it prefers.
func named(s job.Spec) []job.Dependency {
	if s.SameGPUAs == "" {
		return s.DependsOn
	}
	return append(slices.Clone(s.DependsOn), job.Dependency{Jobs: []string{s.SameGPUAs}})
}

// check asks the broker, before anything is sent, whether all others that are named are there.
func (f *family) check(ctx context.Context, q *queue.Queue) error {
	for _, p := range f.jobs {
		outside := p.job
		outside.Spec.DependsOn = nil
		for _, d := range p.job.Spec.DependsOn {
			d.Jobs = slices.DeleteFunc(slices.Clone(d.Jobs), func(word string) bool { _, ours := f.byName[word]; return ours })
			if len(d.Jobs) > 0 {
				outside.Spec.DependsOn = append(outside.Spec.DependsOn, d)
			}
		}
		if _, ours := f.byName[p.job.Spec.SameGPUAs]; ours {
			outside.Spec.SameGPUAs = ""
		}
		if err := q.NameParents(ctx, &outside); err != nil {
			return parentError(err)
		}
	}
	return nil
}

// named is a job of the family with the numbers of its parents in place of their names.
func (f *family) named(i int) prepared {
	p := f.jobs[i]
	all := slices.Clone(p.job.Spec.DependsOn)
	for k, d := range all {
		all[k].Jobs = slices.Clone(d.Jobs)
		for n, word := range d.Jobs {
			if number, ours := f.number[word]; ours {
				all[k].Jobs[n] = strconv.FormatUint(number, 10)
			}
		}
	}
	p.job.Spec.DependsOn = all
	if number, ours := f.number[p.job.Spec.SameGPUAs]; ours {
		p.job.Spec.SameGPUAs = strconv.FormatUint(number, 10)
	}
	return p
}

func parentError(err error) error {
	if errors.Is(err, queue.ErrParent) || errors.Is(err, queue.ErrAmbiguous) {
		return exit.With(exit.Spec, err)
	}
	return cli.Broker(err)
}
