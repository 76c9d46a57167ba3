package submit

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
)

// prepared is a job ready to be sent, with what was decided about it.
type prepared struct {
	job     job.Job
	answers []estimator.Answer // one, or one for each point of a matrix
	dry     []dryAnswer        // beside answers, in a dry run
	file    string
}

// prepare makes jobs of all the specs or of none.
func (f *flags) prepare(env cli.Env, args []string, dash int) ([]prepared, error) {
	sources, err := f.read(env, args, dash)
	if err != nil {
		return nil, err
	}
	if f.given("idempotency-key") && len(sources) > 1 {
		return nil, exit.Errorf(exit.Usage, "--idempotency-key names one job, here are %d", len(sources)).
			Hinted("give each spec its idempotency_key")
	}
	jobs := make([]prepared, len(sources))
	for i, s := range sources {
		if jobs[i], err = f.prepareOne(env, s); err != nil {
			return nil, exit.With(exit.Spec, located(s.file, i, len(sources), err))
		}
	}
	return jobs, nil
}

// located says which of several documents is meant.
func located(file string, i, n int, err error) error {
	switch {
	case file == "":
		return err
	case n == 1:
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s, job %d of %d: %w", file, i+1, n, err)
}

func (f *flags) prepareOne(env cli.Env, s source) (prepared, error) {
	spec := s.spec
	f.apply(&spec)
	if err := errors.Join(f.applyWhen(&spec, env), f.applyParents(&spec), f.applyMany(&spec, env)); err != nil {
		return prepared{}, err
	}
	if err := f.freeze(&spec, env); err != nil {
		return prepared{}, err
	}
	me := cli.Me(env)
	if spec.Project == "" {
		spec.Project = me.Project
	}
	if err := errors.Join(job.Validate(spec), spec.CheckWhen(env.Now())); err != nil {
		return prepared{}, err
	}
	p := prepared{file: s.file, job: job.Job{
		Version: job.Version, Project: spec.Project, User: me.User, UserClaimed: true,
		SubmittedAt: env.Now().UTC(), SubmitHost: env.Host, Spec: spec,
	}}
	id, err := uuid.NewV7()
	if err != nil {
		return prepared{}, fmt.Errorf("make an id: %w", err)
	}
	p.job.ID = id.String()
	return p, p.require(env)
}

// require fills in what each task needs: one answer for all, or one for each point of a matrix.
func (p *prepared) require(env cli.Env) error {
	spec := p.job.Spec
	tasks, err := job.Expand(spec)
	if err != nil {
		return err
	}
	p.job.Tasks = tasks
	if tasks == nil || len(tasks.Params) == 0 {
		answer, err := estimate(spec, env, nil)
		if err != nil {
			return err
		}
		p.answers, p.job.Requirements = []estimator.Answer{answer}, answer.Requirements()
		return nil
	}
	known := map[string]estimator.Answer{}
	for _, params := range tasks.Params {
		answer, err := estimatePoint(spec, env, params, known)
		if err != nil {
			return fmt.Errorf("point %s: %w", pointText(params), err)
		}
		p.answers = append(p.answers, answer)
		tasks.Requirements = append(tasks.Requirements, answer.Requirements())
	}
	p.job.Requirements = tasks.Requirements[0]
	if !differ(tasks.Requirements) {
		tasks.Requirements = nil
	}
	if len(spec.Points) > 0 {
		tasks.Params = nil // the spec says them
	}
	return nil
}

// differ reports whether any task needs something else than the first.
func differ(all []job.Requirements) bool {
	return slices.ContainsFunc(all, func(r job.Requirements) bool { return !reflect.DeepEqual(r, all[0]) })
}

func estimatePoint(spec job.Spec, env cli.Env, params map[string]any, known map[string]estimator.Answer) (estimator.Answer, error) {
	key := pointText(params)
	if a, ok := known[key]; ok {
		return a, nil
	}
	a, err := estimate(spec, env, params)
	known[key] = a
	return a, err
}

func pointText(params map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(params)) {
		parts = append(parts, k+"="+job.ParamText(params[k]))
	}
	return strings.Join(parts, " ")
}
