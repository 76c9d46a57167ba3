package submit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/job"
)

// captured are the variables a run inherits from where it was submitted: what decides which programs and libraries
// it finds.
var captured = []string{"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH", "PYTHONPATH", "LANG", "TZ"}

// neverCaptured even under --env all: Berth's own settings and tokens, the GPUs of the caller's shell, and what
// describes that shell rather than the work.
func neverCaptured(key string) bool {
	return strings.HasPrefix(key, "BERTH_") ||
		slices.Contains([]string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "_", "PWD", "OLDPWD", "SHLVL", "TERM", "COLUMNS", "LINES"}, key)
}

// freeze makes the spec's environment complete and independent of this machine: captured variables, then the files,
// then the spec's own, then -e.
func (f *flags) freeze(s *job.Spec, env cli.Env) error {
	asked, capture, err := f.askedEnv(env, s.Image != "")
	if err != nil {
		return err
	}
	full := map[string]*string{}
	for _, kv := range env.Environ {
		if key, value, ok := strings.Cut(kv, "="); ok && key != "" && capture(key) {
			full[key] = &value
		}
	}
	for _, file := range append(slices.Clone(s.EnvFile), f.envFiles...) {
		if err := readEnvFile(full, absolute(env.Dir, file)); err != nil {
			return err
		}
	}
	for key, value := range s.Env {
		if value == nil {
			if value, err = fromHere(env, key); err != nil {
				return fmt.Errorf("env: %w", err)
			}
		}
		full[key] = value
	}
	for key, value := range asked {
		full[key] = value
	}
	s.Env, s.EnvFile = full, nil
	s.Workdir = absolute(env.Dir, s.Workdir)
	for i, v := range s.Volumes {
		s.Volumes[i] = absoluteVolume(env.Dir, v)
	}
	return nil
}

// askedEnv reads -e: variables by name or with a value, and at most one of none and all.
func (f *flags) askedEnv(env cli.Env, image bool) (asked map[string]*string, capture func(string) bool, err error) {
	asked = map[string]*string{}
	usual := captured
	if image {
		usual = capturedInImage
	}
	capture = func(key string) bool { return slices.Contains(usual, key) }
	for _, e := range f.env {
		key, value, hasValue := strings.Cut(e, "=")
		switch {
		case e == "none":
			capture = func(string) bool { return false }
		case e == "all":
			capture = func(key string) bool { return !neverCaptured(key) }
		case key == "":
			return nil, nil, fmt.Errorf("-e %q: want KEY=VALUE, KEY, none or all", e)
		case hasValue:
			asked[key] = &value
		default:
			v, err := fromHere(env, key)
			if err != nil {
				return nil, nil, fmt.Errorf("-e %s: %w", key, err)
			}
			asked[key] = v
		}
	}
	return asked, capture, nil
}

func fromHere(env cli.Env, key string) (*string, error) {
	value, found := env.LookupEnv(key)
	if !found {
		return nil, fmt.Errorf("%s is not set here; export it or give it a value", key)
	}
	return &value, nil
}

func readEnvFile(into map[string]*string, path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("env file %s does not exist", path)
	}
	if err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return fmt.Errorf("%s:%d: want KEY=VALUE, not %q", path, i+1, line)
		}
		value = unquote(strings.TrimSpace(value))
		into[key] = &value
	}
	return nil
}

// unquote takes one pair of quotes off, as a shell does; nothing is expanded.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
