package job

import (
	"regexp"
	"slices"
	"strings"
)

const maxSecrets = 64

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func (s Spec) checkSecrets(ps *problems) {
	if len(s.Secrets) > maxSecrets {
		ps.add("secrets", "has %d names, at most %d are allowed", len(s.Secrets), maxSecrets)
	}
	for i, name := range s.Secrets {
		at := indexed("secrets", i)
		_, inEnv := s.Env[name]
		switch {
		case strings.Contains(name, "="):
			ps.add(at, "holds a value: only names go into a spec, the machine has the values")
		case !secretName.MatchString(name):
			ps.add(at, "%s: want the name of a variable, such as WANDB_API_KEY", quoted(name))
		case strings.HasPrefix(name, "BERTH_") || name == "CUDA_VISIBLE_DEVICES" || name == "NVIDIA_VISIBLE_DEVICES" || name == "CUDA_DEVICE_ORDER":
			ps.add(at, "%s is a variable that Berth itself sets", name)
		case inEnv:
			ps.add(at, "%s is in env too, where everybody can read it", name)
		case slices.Contains(s.Secrets[:i], name):
			ps.add(at, "names %s twice", name)
		}
	}
}
