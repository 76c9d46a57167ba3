package runner

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/berthq/berth/runner/shim"
)

// Account is as whom a run runs, when not as the worker. Only a worker that is root can change.
type Account = shim.Account

// IsLimit reports whether an account may have that limit.
func IsLimit(name string) bool { return shim.IsLimit(name) }

// LimitNames are the limits an account may have, as ulimit's.
func LimitNames() []string { return shim.LimitNames() }

// give makes what the job may see in its run's folder the person's. Everything else there stays the worker's.
func (p *Process) give(dir string, a *Account) error {
	if a == nil {
		return nil
	}
	for _, d := range []string{filepath.Dir(p.runs), p.runs, dir} { // to be gone through, not looked into
		if err := os.Chmod(d, 0o711); err != nil {
			return fmt.Errorf("open the way to the run's folder: %w", err)
		}
	}
	job := filepath.Join(dir, shim.JobDir)
	if err := os.Lchown(job, int(a.UID), int(a.GID)); err != nil {
		return fmt.Errorf("give the run its folder: %w", err)
	}
	return os.Chmod(job, 0o700)
}
