package queue

import (
	"errors"
	"fmt"

	"github.com/berthq/berth/job"
)

// errGarbage marks a message that no version of Berth can run.
var errGarbage = errors.New("the message is not a job")

// maxTasks bounds a group.
const maxTasks = 100_000

// checkEnvelope says what makes a message unfit to be a job. It guards the queue's own promises only; whether the spec
// makes sense was the submitter's to check, and a worker finds out what is left of it.
func checkEnvelope(j *job.Job, project, user string) error {
	switch {
	case j.Version < 1:
		return errors.New("it has no version")
	case j.ID == "":
		return errors.New("it has no id")
	case j.Project != "" && j.Project != project:
		return fmt.Errorf("it says project %q but was sent as %q", j.Project, project)
	case j.User != "" && j.User != user:
		return fmt.Errorf("it says user %q but was sent as %q", j.User, user)
	case j.Requirements.GPUs < 0, j.Requirements.GPUMemoryMB < 0, j.Requirements.CPUs < 0, j.Requirements.MemoryMB < 0:
		return errors.New("its requirements are negative")
	}
	if err := errors.Join(checkToken("project", project), checkToken("user", user)); err != nil {
		return err
	}
	return checkTasks(j.Tasks)
}

func checkTasks(t *job.Tasks) error {
	if t == nil {
		return nil
	}
	switch {
	case t.Count < 1:
		return errors.New("it is a group without tasks")
	case t.Count > maxTasks:
		return fmt.Errorf("it has %d tasks, %d are allowed", t.Count, maxTasks)
	case t.Params != nil && len(t.Params) != t.Count:
		return fmt.Errorf("it has %d tasks but %d sets of parameters", t.Count, len(t.Params))
	case t.Requirements != nil && len(t.Requirements) != t.Count:
		return fmt.Errorf("it has %d tasks but %d requirements", t.Count, len(t.Requirements))
	}
	all, err := parseSpans(t)
	if err != nil {
		return err
	}
	return all.check(t.Count)
}
