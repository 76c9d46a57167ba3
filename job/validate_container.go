package job

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The words of a container's settings.
var (
	PullPolicies  = []string{"missing", "always", "never"}
	networkName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	containerUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)
)

const maxImageLength = 512

func (s Spec) checkContainer(ps *problems) {
	if s.Image == "" {
		if len(s.Volumes) > 0 {
			ps.add("volumes", "are for a container: add image: NAME, or leave them out")
		}
		if s.Container != nil {
			ps.add("container", "has settings, and the job has no image: add image: NAME, or leave them out")
		}
		return
	}
	s.checkImage(ps)
	s.checkVolumes(ps)
	if c := s.Container; c != nil {
		c.check(ps)
	}
}

func (s Spec) checkImage(ps *problems) {
	checkText(ps, "image", s.Image, maxImageLength)
	switch {
	case strings.ContainsFunc(s.Image, unicode.IsSpace) || strings.HasPrefix(s.Image, "-"):
		ps.add("image", "%s is not the name of an image: want for example nvcr.io/nvidia/pytorch:25.01-py3", quoted(s.Image))
	case s.IsLease():
		ps.add("image", "is for a command, and a lease runs none")
	case len(s.Steps) > 0:
		ps.add("image", "is for a command: steps in a container are not supported yet by this version")
	}
	if len(s.Resources.Frameworks) > 0 {
		ps.add("resources.frameworks", "are those of the machine, and the job brings its own in the image: leave them out")
	}
}

func (s Spec) checkVolumes(ps *problems) {
	var targets []string
	for i, v := range s.Volumes {
		at := indexed("volumes", i)
		parts := strings.Split(v, ":")
		switch {
		case strings.ContainsRune(v, 0):
			ps.add(at, "holds a NUL byte")
		case len(parts) < 2 || len(parts) > 3 || !strings.HasPrefix(parts[0], "/") || !strings.HasPrefix(parts[1], "/"):
			ps.add(at, "%s: want /on/the/machine:/in/the/container, :ro behind it for reading only (volumes of the engine have no place here)", quoted(v))
		case len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw":
			ps.add(at, "%s ends in %s: want ro or rw", quoted(v), quoted(parts[2]))
		case path.Clean(parts[1]) == "/":
			ps.add(at, "%s would take the place of the whole image", quoted(v))
		case slices.Contains(targets, path.Clean(parts[1])):
			ps.add(at, "%s is in the container twice", parts[1])
		default:
			targets = append(targets, path.Clean(parts[1]))
		}
	}
}

func (c Container) check(ps *problems) {
	if c.ShmSize.IsAuto() {
		ps.add("container.shm_size", "auto is for gpu_memory: give it a size such as 16Gi, or leave it out")
	}
	if c.Network != "" && !networkName.MatchString(c.Network) {
		ps.add("container.network", "%s: want none, host, bridge, or the name of a network of the engine", quoted(c.Network))
	}
	if c.User != "" && !containerUser.MatchString(c.User) {
		ps.add("container.user", "%s: want UID, UID:GID, or a name in the image", quoted(c.User))
	}
	checkChoice(ps, "container.pull", c.Pull, PullPolicies)
}
