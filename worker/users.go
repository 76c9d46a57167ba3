package worker

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berthq/berth/runner"
)

// MayChangeUsers reports whether this process can start others as somebody else.
func MayChangeUsers() bool { return os.Geteuid() == 0 }

// ErrRoot refuses a worker that would run everybody's jobs as root without having been told to.
var ErrRoot = errors.New("this worker is root, and so would be the jobs of everybody who may submit: " +
	"--users FILE gives each user an account, another account for the worker is every job's too, --allow-root means it")

// CheckRoot refuses what nobody asked for: jobs that run as root. Where a map of users is, its own allow-root says who may.
func CheckRoot(m *UserMap, allowed bool) error {
	if m == nil && MayChangeUsers() && !allowed {
		return ErrRoot
	}
	return nil
}

// RunsAs says in a sentence as whom runs of a worker with that map run.
func RunsAs(m *UserMap) string {
	me := ownAccount()
	switch {
	case m != nil && MayChangeUsers():
		return "each user's own account, by " + m.path
	case m != nil:
		return "everything as " + me + ": a worker that is not root cannot follow " + m.path
	case MayChangeUsers():
		return "everything as " + me + ", the machine's administrator, because it was told to (allow-root)"
	}
	return "everything as " + me
}

func ownAccount() string {
	uid := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return "uid " + uid
}

// account is as whom an attempt runs; nil is as the worker itself.
func (w *Worker) account(a *attempt) (*runner.Account, error) {
	if w.cfg.Users == nil || !MayChangeUsers() {
		return nil, nil
	}
	j := a.claim.Job
	account, err := w.cfg.Users.Account(j.User, j.UserClaimed)
	if err != nil {
		return nil, &runner.StartError{Code: 126, Reason: err.Error()}
	}
	return account, nil
}

// accountEnviron is what a run's environment starts from: the worker's, with the person in it.
func accountEnviron(base []string, a *runner.Account) []string {
	if a == nil {
		return base
	}
	return append(append([]string(nil), base...), "HOME="+a.Home, "USER="+a.Name, "LOGNAME="+a.Name, "SHELL=/bin/sh")
}

// giveCheckpoint makes the folder that a job keeps between its attempts its person's.
func giveCheckpoint(dir string, a *runner.Account) error {
	if a == nil {
		return nil
	}
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		return fmt.Errorf("checkpoint folder: %w", err)
	}
	if err := os.Lchown(dir, int(a.UID), int(a.GID)); err != nil {
		return fmt.Errorf("checkpoint folder: %w", err)
	}
	return nil
}

// runAs names who a run was, for its result.
func runAs(a *runner.Account) string {
	switch {
	case a == nil:
		return ownAccount()
	case strings.Contains(a.Name, ":"):
		return "uid " + a.Name
	}
	return a.Name
}
