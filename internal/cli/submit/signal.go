package submit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
)

// signalValue is a signal and how long ahead of the end it comes: "USR1@120s"; bare figures are seconds, as Slurm has
// them.
type signalValue struct {
	name   string
	before job.Duration
}

func (v *signalValue) Set(s string) error {
	name, before, timed := strings.Cut(strings.TrimPrefix(s, "B:"), "@")
	var ok bool
	if v.name, ok = job.SignalName(name); !ok {
		return fmt.Errorf("%q is no signal a program can hear; want one such as USR1@120s", name)
	}
	v.before = job.DefaultCheckpointBefore
	if !timed {
		return nil
	}
	if seconds, err := strconv.Atoi(before); err == nil {
		before = strconv.Itoa(seconds) + "s"
	}
	var err error
	v.before, err = job.ParseDuration(before)
	return err
}

func (v *signalValue) Type() string { return "SIGNAL@TIME" }
func (v *signalValue) String() string {
	if v.name == "" {
		return ""
	}
	return v.name + "@" + v.before.String()
}
