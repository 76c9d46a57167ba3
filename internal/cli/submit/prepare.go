package submit

import (
	"errors"
	"fmt"

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
	p.answers, err = estimator.Fill(&p.job, estimateOptions(spec, env))
	return p, err
}
