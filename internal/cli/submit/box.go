package submit

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
)

// box is the container that a command runs in.
type box struct {
	image   string
	volumes []string
	shmSize job.Memory
	user    string
}

func (b *box) bind(s *pflag.FlagSet) {
	s.StringVar(&b.image, "image", "", "run the command in this container image; the folder it runs in is there too")
	s.StringArrayVar(&b.volumes, "volume", nil, "`HOST:CONTAINER` folder or file in the container; :ro behind it for reading only")
	s.Var(textValue{&b.shmSize, "SIZE"}, "shm-size", "size of the container's /dev/shm, 16Gi")
	s.StringVar(&b.user, "user", "", "user in the container, `UID[:GID]` (default: who the worker runs jobs as)")
}

// applyBox puts the flags that were given on top of a spec.
func (f *flags) applyBox(s *job.Spec) {
	put(f, "image", &s.Image, f.box.image)
	put(f, "volume", &s.Volumes, f.box.volumes)
	if !slices.ContainsFunc([]string{"shm-size", "user"}, f.given) {
		return
	}
	var c job.Container
	if s.Container != nil {
		c = *s.Container
	}
	put(f, "shm-size", &c.ShmSize, f.box.shmSize)
	put(f, "user", &c.User, f.box.user)
	s.Container = &c
}

// capturedInImage are the variables that mean something in an image too: those that say where programs and libraries
// are would hide the image's own.
var capturedInImage = []string{"LANG", "TZ"}

// absoluteVolume puts this folder before a path that begins with a dot. A bare word stays, and is refused: for an engine
// it would name a volume of its own.
func absoluteVolume(dir, v string) string {
	host, rest, found := strings.Cut(v, ":")
	if found && (host == "." || host == ".." || strings.HasPrefix(host, "./") || strings.HasPrefix(host, "../")) {
		return filepath.Join(dir, host) + ":" + rest
	}
	return v
}

// boxLines say what is special about the container: label and text.
func boxLines(s job.Spec) [][2]string {
	if s.Image == "" {
		return nil
	}
	lines := [][2]string{{"image", s.Image}}
	for _, v := range s.Volumes {
		lines = append(lines, [2]string{"volume", v})
	}
	c := s.Container
	if c == nil {
		return lines
	}
	var words []string
	if mb, sized := c.ShmSize.MB(); sized {
		words = append(words, screen.Memory(mb)+" of /dev/shm")
	}
	for _, w := range []struct{ what, value string }{{"network ", c.Network}, {"user ", c.User}, {"pull ", c.Pull}} {
		if w.value != "" {
			words = append(words, w.what+w.value)
		}
	}
	return append(lines, [2]string{"container", strings.Join(words, ", ")})
}
