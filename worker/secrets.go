package worker

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/redact"
)

// maxSecret is the largest value: a key file, not a data set.
const maxSecret = 8 << 10

// secrets are values by name. They live in the run's environment and in its shim, nowhere else.
type secrets map[string]string

// readSecrets finds the values of the names a job gives, each in a file of its own: those of its project first, then
// those for everybody. A name without a value is the job's mistake, or this machine's lack of it: nothing is started.
func readSecrets(dir, project string, names []string) (secrets, error) {
	found := secrets{}
	for _, name := range names {
		value, err := readSecret(dir, project, name)
		if err != nil {
			return nil, &runner.StartError{Code: 126, Reason: fmt.Sprintf("secret %s: %s", name, err)}
		}
		found[name] = value
	}
	return found, nil
}

func readSecret(dir, project, name string) (string, error) {
	if dir == "" {
		return "", errors.New("this machine has no folder of secrets (worker --secrets DIR)")
	}
	if filepath.Base(name) != name || strings.HasPrefix(name, ".") { // the submitter checked; the message may be anybody's
		return "", errors.New("is not the name of a variable")
	}
	for _, path := range []string{filepath.Join(dir, project, name), filepath.Join(dir, name)} {
		value, err := readSecretFile(path)
		if !errors.Is(err, os.ErrNotExist) {
			return value, err
		}
	}
	return "", fmt.Errorf("this machine has no value for it: put one into %s for project %s, or into %s for all (mode 0600)",
		filepath.Join(dir, project, name), project, filepath.Join(dir, name))
}

// readSecretFile reads one value. A file that others can read is no secret, and is not used as one.
func readSecretFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", os.ErrNotExist // the folder of a project may have the name of a secret
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %04o, so that others can read it: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to uid %d, neither to the worker nor to root", path, s.Uid)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", err
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	switch {
	case len(b) > maxSecret:
		return "", fmt.Errorf("%s holds more than %d KiB", path, maxSecret>>10)
	case strings.ContainsRune(value, 0):
		return "", fmt.Errorf("%s holds a NUL byte, which no variable can have", path)
	case len(value) < redact.MinLength:
		return "", fmt.Errorf("%s holds %d characters: fewer than %d cannot be kept out of a log", path, len(value), redact.MinLength)
	}
	return value, nil
}

// into is the spec with the values in its environment.
func (s secrets) into(spec job.Spec) job.Spec {
	if len(s) == 0 {
		return spec
	}
	spec.Env = maps.Clone(spec.Env)
	if spec.Env == nil {
		spec.Env = map[string]*string{}
	}
	for name, value := range s {
		spec.Env[name] = &value
	}
	return spec
}

func (s secrets) values() []string { return slices.Sorted(maps.Values(s)) }
