package queue

import (
	"errors"
	"fmt"

	"github.com/berthq/berth/job"
)

// errGarbage marks a message that no version of Berth can run.
var errGarbage = errors.New("the message cannot be run")

// decodeJob reads a message of the jobs stream. Who sent it is what the subject says, where the broker's permissions
// pin it; an envelope that claims something else is refused.
func decodeJob(s *stored) (*job.Job, error) {
	project, user, ok := parseJobSubject(s.Subject)
	if !ok {
		return nil, fmt.Errorf("%w: subject %q is not berth.jobs.<project>.<user>", errGarbage, s.Subject)
	}
	j, err := job.DecodeJob(s.Data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errGarbage, err)
	case j.Project != project:
		return nil, fmt.Errorf("%w: it says project %q but was sent as %q", errGarbage, j.Project, project)
	case j.User != user:
		return nil, fmt.Errorf("%w: it says user %q but was sent as %q", errGarbage, j.User, user)
	}
	return &j, nil
}

// checkJob says before it is sent, as so many bytes, what would make a job garbage to those who read it.
func checkJob(j *job.Job, bytes int) error {
	err := errors.Join(checkToken("project", j.Project), checkToken("user", j.User))
	if err != nil {
		return err
	}
	if r := j.Requirements; r.GPUs < 0 || r.GPUMemoryMB < 0 || r.CPUs < 0 || r.MemoryMB < 0 || r.Slots < 0 {
		return errors.New("its requirements are negative")
	}
	if err := checkTasks(j.Tasks); err != nil {
		return err
	}
	return job.ValidateWithin(j.Spec, bytes)
}

func checkTasks(t *job.Tasks) error {
	if t == nil {
		return nil
	}
	all, err := job.ParseArray(t.Indexes)
	switch {
	case err != nil:
		return err
	case t.Count != all.Count():
		return fmt.Errorf("the group says %d tasks and lists %d", t.Count, all.Count())
	case len(t.Params) != 0 && len(t.Params) != t.Count:
		return fmt.Errorf("it has %d tasks but %d sets of parameters", t.Count, len(t.Params))
	case len(t.Requirements) != 0 && len(t.Requirements) != t.Count:
		return fmt.Errorf("it has %d tasks but %d requirements", t.Count, len(t.Requirements))
	}
	return nil
}
