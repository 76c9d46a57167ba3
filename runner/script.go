package runner

import (
	"errors"
	"os"
)

// writeScript puts the run's script where its command looks for it: into a folder that no job has been in, so that
// nobody can have put a link there. Nobody but the run gets as far as that folder, and in
// a container its user may be anybody.
func writeScript(dir string, run Run) (err error) {
	if run.Script == "" {
		return nil
	}
	f, err := os.OpenFile(ScriptFile(dir), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o555)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(run.Script); err != nil {
		return err
	}
	return f.Chmod(0o555) // whatever the umask is
}
