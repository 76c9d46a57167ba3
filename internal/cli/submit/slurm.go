package submit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berthq/berth/job"
)

// bindSlurm adds Slurm's spellings. Each sets the flag it is a spelling of, so nothing else needs to know of them. They
// stay out of the help: people who know them type them.
func (f *flags) bindSlurm() {
	for name, set := range map[string]func(*pflag.FlagSet, string) error{
		"job-name": func(s *pflag.FlagSet, v string) error { return s.Set("name", v) },
		"time":     setSlurmTime,
		"gres":     setGres,
	} {
		f.set.Var(spelling{f.set, set}, name, "Slurm's spelling")
		f.set.Lookup(name).Hidden = true
	}
}

// spelling is another way to write other flags.
type spelling struct {
	flags *pflag.FlagSet
	set   func(*pflag.FlagSet, string) error
}

func (v spelling) Set(text string) error { return v.set(v.flags, text) }
func (v spelling) Type() string          { return "VALUE" }
func (v spelling) String() string        { return "" }

// setSlurmTime reads Slurm's time limits: a bare number is minutes, the others are forms of --time-limit too.
func setSlurmTime(flags *pflag.FlagSet, text string) error {
	switch strings.ToUpper(text) {
	case "0", "INFINITE", "UNLIMITED":
		return flags.Set("time-limit", "")
	}
	if _, err := strconv.ParseUint(text, 10, 32); err == nil {
		text += "m"
	}
	if _, err := job.ParseDuration(text); err != nil {
		return err
	}
	return flags.Set("time-limit", text)
}

// setGres reads "gpu", "gpu:2" and "gpu:a100:2".
func setGres(flags *pflag.FlagSet, text string) error {
	wrong := fmt.Errorf("%q: want gpu:NUMBER or gpu:MODEL:NUMBER; other resources are not known here", text)
	parts := strings.Split(strings.ToLower(text), ":")
	if parts[0] != "gpu" || len(parts) > 3 {
		return wrong
	}
	count, model := "1", ""
	for _, part := range parts[1:] {
		_, err := strconv.ParseUint(part, 10, 16)
		switch {
		case err == nil:
			count = part
		case part == "" || model != "":
			return wrong
		default:
			model = part
		}
	}
	if err := flags.Set("gpus", count); err != nil || model == "" {
		return err
	}
	return flags.Set("gpu-model", strings.ToUpper(model))
}

// slurmNames are the #SBATCH options that mean something here, by Slurm's names. Its short flags are not Berth's: -p is
// a partition there, and -e a file.
var slurmNames = map[string]string{
	"job-name": "job-name", "J": "job-name",
	"time": "time", "t": "time",
	"gres": "gres", "gpus": "gpus", "G": "gpus", "gpus-per-node": "gpus",
	"cpus-per-task": "cpus", "c": "cpus",
	"mem":   "memory",
	"array": "array", "a": "array",
	"chdir": "workdir", "D": "workdir",
	"hold": "hold", "H": "hold",
	"dependency": "dependency", "d": "dependency",
}
