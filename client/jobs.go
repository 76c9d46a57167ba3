package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// ID names a job (Job(1842)) or one task of a group (Task(1842, 17)).
type ID = queue.Ref

// Job is the job, or the whole group, of a number.
func Job(number uint64) ID { return queue.JobRef(number) }

// Task is one task of a group.
func Task(number uint64, index int) ID { return queue.TaskRef(number, index) }

// ParseID reads "1842" or "1842.17", as people and events write them.
func ParseID(s string) (ID, error) { return queue.ParseRef(s) }

// Receipt is what Submit returns: the job's number, its id, and whether its idempotency key was known.
type Receipt = queue.Receipt

// What a caller may want to tell apart.
var (
	ErrUnreachable  = queue.ErrUnreachable  // nobody answers at the address
	ErrUnauthorized = queue.ErrUnauthorized // the broker refuses the token or the credentials
	ErrNotFound     = queue.ErrNotFound     // no such job, or it has no result yet
	ErrFinal        = queue.ErrFinal        // it has ended already
	ErrNotKept      = queue.ErrNotKept      // the log begins after that sequence
	ErrNotYet       = queue.ErrNotYet       // the log has not come to that sequence
)

// Submit stores a job with one durable write; when it returns, the job is in the queue whatever happens to this program.
// With spec.IdempotencyKey a second submit of the same key gives the first one's number, and Duplicate.
//
// The spec is taken as it is: nothing of this program's own environment goes with it, files are not read, so Workdir is
// an absolute path of the machines (an image has its own), and every variable has its value.
func (c *Client) Submit(ctx context.Context, spec job.Spec) (Receipt, error) {
	j, err := c.jobOf(spec)
	if err != nil {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	return c.q.Submit(ctx, j)
}

func (c *Client) jobOf(spec job.Spec) (job.Job, error) {
	if spec.Project == "" {
		spec.Project = c.o.Project
	}
	if err := errors.Join(c.checkUser(), complete(spec), job.Validate(spec)); err != nil {
		return job.Job{}, err
	}
	j := job.Job{Project: spec.Project, User: c.o.User, UserClaimed: true, Spec: spec}
	_, err := estimator.Fill(&j, estimator.Options{})
	return j, err
}

func (c *Client) checkUser() error {
	if !job.ValidToken(c.o.User) {
		return fmt.Errorf("Options.User is %q: want whose jobs these are, 1 to 32 of a-z, 0-9, _ and -", c.o.User)
	}
	return nil
}

// complete refuses what only the submit command could make whole, at the shell of the one who types.
func complete(spec job.Spec) error {
	var errs []error
	if !filepath.IsAbs(spec.Workdir) && (spec.Workdir != "" || spec.Image == "") {
		errs = append(errs, fmt.Errorf("workdir %q: a program gives an absolute path of the machines", spec.Workdir))
	}
	if len(spec.EnvFile) > 0 {
		errs = append(errs, fmt.Errorf("env_file %q: a program reads it and gives env", spec.EnvFile))
	}
	for name, value := range spec.Env {
		if value == nil {
			errs = append(errs, fmt.Errorf("env %s: a program gives the value", name))
		}
	}
	return errors.Join(errs...)
}

// Wait waits for the end of a job's present round: of a group, for its last task. That the job failed is in the result,
// not in the error.
func (c *Client) Wait(ctx context.Context, id ID) (job.Result, error) { return c.q.WaitResult(ctx, id) }

// Cancel asks for the end of a job, task or group. The state is cancelled when it waited, running when its run has been
// told to stop: then Wait brings the proof.
func (c *Client) Cancel(ctx context.Context, id ID, reason string) (job.State, error) {
	if err := c.checkUser(); err != nil {
		return "", fmt.Errorf("cancel %s: %w", id, err)
	}
	return c.q.Cancel(ctx, id, c.o.User, reason)
}
