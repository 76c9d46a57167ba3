package frameworks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoPython is wrapped when the interpreter cannot be found.
var ErrNoPython = errors.New("no Python interpreter")

// interpreter finds the Python that was meant.
func interpreter(given string, environ []string) (string, error) {
	if given == "" {
		return lookPath("python3", environ)
	}
	info, err := os.Stat(given)
	switch {
	case err != nil && filepath.Base(given) == given:
		return lookPath(given, environ)
	case err != nil:
		return "", fmt.Errorf("%w: %w: name a Python or the folder of a virtual environment", ErrNoPython, err)
	case !info.IsDir():
		return filepath.Abs(given)
	}
	for _, name := range []string{"python3", "python"} {
		path := filepath.Join(given, "bin", name)
		if _, err := os.Stat(path); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("%w: %s is a folder without bin/python3, so no virtual environment", ErrNoPython, given)
}

// lookPath is exec.LookPath on the PATH that the probes get, which need not be this process's.
func lookPath(name string, environ []string) (string, error) {
	for _, dir := range filepath.SplitList(lookup(environ, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s is not in PATH; install it or name one", ErrNoPython, name)
}
