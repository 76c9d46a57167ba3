package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/berthq/berth/runner/cgroup"
)

// refusal is why a job cannot be started. Code is what a shell would exit with; 0 means the machine is to blame.
type refusal struct {
	code   int
	reason string
}

func (r refusal) Error() string { return r.reason }

// The exit codes of a command that cannot be run, as shells have them.
const (
	cannotExecute = 126
	notFound      = 127
)

// launch starts the order's command in its workdir, a session of its own and the cgroup, writing to the two pipes.
func launch(o Order, in *cgroup.Group, stdout, stderr *os.File) (pid int, err error) {
	if err := o.Account.look(func() error { return enterable(o.Dir) }); err != nil {
		return 0, err
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		return 0, refusal{notFound, "the command is empty"}
	}
	var path string
	err = o.Account.look(func() (err error) { path, err = resolve(o.Command[0], o.Dir, o.Env); return err })
	if err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	sys := &syscall.SysProcAttr{Setsid: true, Credential: o.Account.credential()}
	if in != nil {
		group, err := syscall.Open(in.Dir, syscall.O_DIRECTORY|syscall.O_CLOEXEC|oPath, 0)
		if err != nil {
			return 0, &os.PathError{Op: "open the run's cgroup", Path: in.Dir, Err: err}
		}
		defer func() { _ = syscall.Close(group) }() // only named a folder
		sys.UseCgroupFD, sys.CgroupFD = true, group
	}
	attr := &syscall.ProcAttr{
		Dir: o.Dir, Env: append(o.Env[:len(o.Env):len(o.Env)], o.Mark), Sys: sys,
		Files: []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()},
	}
	limits := cgroup.Legacy(o.Legacy)
	if err := limits.Enter(); err != nil {
		return 0, errors.Join(err, limits.Leave())
	}
	restore := o.Account.prepare()
	pid, err = syscall.ForkExec(path, o.Command, attr)
	restore()
	if err == nil {
		o.Account.seal(pid)
	}
	if left := limits.Leave(); left != nil && err == nil {
		fmt.Fprintln(os.Stderr, left) // the run is fine; the shim is counted with it
	}
	return pid, explain(err, path)
}

const oPath = 0x200000 // O_PATH, the same on all Linux architectures

func enterable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refusal{notFound, "the workdir " + dir + " does not exist on this machine"}
	case err == nil && !info.IsDir():
		return refusal{cannotExecute, "the workdir " + dir + " is not a folder"}
	case err == nil:
		err = mayExecute(dir)
	}
	if err != nil {
		return refusal{cannotExecute, "the workdir " + dir + " cannot be entered: " + cause(err)}
	}
	return nil
}

const accessExecute = 1 // X_OK

// resolve finds a command as a shell would: a name with a slash as it stands, below the workdir; any other along PATH.
func resolve(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		path := below(dir, name)
		return path, executable(path, name)
	}
	search := lookup(env, "PATH")
	var blocked error
	for p := range strings.SplitSeq(search, ":") {
		path := below(dir, p) + "/" + name
		if _, err := os.Stat(path); errors.Is(err, os.ErrPermission) {
			continue // another account's folder, as a shell passes it over
		}
		err := executable(path, path)
		if err == nil {
			return path, nil
		}
		var r refusal
		if errors.As(err, &r) && r.code == cannotExecute && blocked == nil {
			blocked = err
		}
	}
	if blocked != nil {
		return "", blocked
	}
	return "", refusal{notFound, "command not found: " + name + " (PATH=" + search + ")"}
}

// below is a path as the job will see it: from its workdir, unless it is absolute.
func below(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return dir + "/" + path
}

func lookup(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}

func executable(path, shown string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return refusal{notFound, "no such file: " + shown}
	case err != nil:
		return refusal{cannotExecute, "cannot look at " + shown + ": " + cause(err)}
	case info.IsDir():
		return refusal{cannotExecute, shown + " is a folder"}
	case info.Mode()&0o111 == 0 || mayExecute(path) != nil:
		return refusal{cannotExecute, shown + " is not executable (chmod +x?)"}
	}
	return nil
}

// explain turns what the kernel said to exec into a sentence, and tells the job's mistakes from the machine's.
func explain(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOENT):
		return refusal{notFound, path + " cannot be run: " + interpreter(path)}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return refusal{cannotExecute, path + " cannot be run: " + cause(err) + " (mounted noexec, or its interpreter is not executable?)"}
	case errors.Is(err, syscall.ENOEXEC):
		return refusal{cannotExecute, path + " is not a program this machine can run (no #! line, or built for another processor)"}
	case errors.Is(err, syscall.E2BIG):
		return refusal{cannotExecute, "the command line and environment are too long for the kernel"}
	case errors.Is(err, syscall.ETXTBSY):
		return refusal{cannotExecute, path + " is open for writing elsewhere"}
	}
	return &os.PathError{Op: "start", Path: path, Err: err}
}

// interpreter names what a file that exists, but cannot be found by exec, is missing.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	line, _, _ := bytes.Cut(head[:n], []byte{'\n'})
	if name, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		return "its interpreter " + strings.TrimSpace(string(bytes.ToValidUTF8(name, nil))) + " does not exist on this machine"
	}
	return "its dynamic loader does not exist on this machine (built for another system?)"
}

// cause is the innermost words of a system error.
func cause(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}
