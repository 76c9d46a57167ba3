package worker

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
)

// UserMap says as which account of this machine the jobs of a user run. It is read from a file:
//
//	claimed = trust                   # also of users whose name no credential proved; refuse is the default
//	ada     = ada umask=0027 nofile=65536
//	bob     = 1005:100                # an account by its numbers
//	ops     = root allow-root         # never by accident
//	*       = nobody                  # everybody else; without this line they are refused
type UserMap struct {
	path    string
	trust   bool
	entries map[string]userEntry
}

type userEntry struct {
	account   string
	umask     *int
	limits    map[string]uint64
	allowRoot bool
}

// ReadUserMap reads the file. It must belong to the worker or root and be closed to other writers: who writes it decides
// who anybody is.
func ReadUserMap(path string) (*UserMap, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the map of users: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("the map of users: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("the map of users %s has mode %04o, so that others can write it: chmod 644 %s", path, info.Mode().Perm(), path)
	}
	m := &UserMap{path: path, entries: map[string]userEntry{}}
	lines := bufio.NewScanner(f)
	var errs []error
	for n := 1; lines.Scan(); n++ {
		if err := m.line(lines.Text()); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, n, err))
		}
	}
	return m, errors.Join(append(errs, lines.Err())...)
}

func (m *UserMap) line(text string) error {
	text, _, _ = strings.Cut(text, "#")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	name, rest, found := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	words := strings.Fields(rest)
	switch {
	case !found || len(words) == 0:
		return fmt.Errorf("want USER = ACCOUNT, not %q", strings.TrimSpace(text))
	case name == "claimed" && len(words) == 1 && (words[0] == "trust" || words[0] == "refuse"):
		m.trust = words[0] == "trust"
		return nil
	case name != "*" && !job.ValidToken(name):
		return fmt.Errorf("%q is no user of the queue: want 1 to 32 of a-z, 0-9, _ and -, or *", name)
	}
	if _, twice := m.entries[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	e := userEntry{account: words[0], limits: map[string]uint64{}}
	for _, option := range words[1:] {
		if err := e.option(option); err != nil {
			return err
		}
	}
	m.entries[name] = e
	return nil
}

func (e *userEntry) option(option string) error {
	key, value, _ := strings.Cut(option, "=")
	switch {
	case option == "allow-root":
		e.allowRoot = true
	case key == "umask":
		n, err := strconv.ParseUint(value, 8, 9)
		if err != nil {
			return fmt.Errorf("umask %q: want octal digits such as 0027", value)
		}
		umask := int(n)
		e.umask = &umask
	case runner.IsLimit(key):
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil {
			return fmt.Errorf("%s: want a number", option)
		}
		e.limits[key] = n
	default:
		return fmt.Errorf("unknown option %q: there are umask=, allow-root and the limits %s", option, strings.Join(runner.LimitNames(), "=, ")+"=")
	}
	return nil
}

// Account is as whom a user's job runs, or why it does not.
func (m *UserMap) Account(name string, claimed bool) (*runner.Account, error) {
	e, known := m.entries[name]
	if !known {
		e, known = m.entries["*"]
	}
	switch {
	case !known:
		return nil, fmt.Errorf("user %s has no account on this machine: a line in %s gives one", name, m.path)
	case claimed && !m.trust:
		return nil, fmt.Errorf("nothing proves that the job is from user %s, and %s trusts no claims: use credentials, or say claimed = trust there", name, m.path)
	}
	a, err := lookUpAccount(e.account)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w (%s)", name, err, m.path)
	}
	if a.UID == 0 && !e.allowRoot {
		return nil, fmt.Errorf("user %s would be root: jobs never are, unless %s says allow-root", name, m.path)
	}
	a.Umask, a.Limits = e.umask, e.limits
	return a, nil
}

// lookUpAccount finds an account by name, with its groups, or takes "uid:gid" as it stands.
func lookUpAccount(name string) (*runner.Account, error) {
	if uid, gid, numbers := strings.Cut(name, ":"); numbers {
		u, err1 := strconv.ParseUint(uid, 10, 32)
		g, err2 := strconv.ParseUint(gid, 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("%q is no uid:gid", name)
		}
		return &runner.Account{Name: name, UID: uint32(u), GID: uint32(g), Home: "/"}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("there is no account %s on this machine", name)
	}
	a := &runner.Account{Name: u.Username, Home: u.HomeDir}
	if a.UID, err = id32(u.Uid); err != nil {
		return nil, err
	}
	if a.GID, err = id32(u.Gid); err != nil {
		return nil, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of account %s: %w", name, err)
	}
	for _, g := range groups {
		n, err := id32(g)
		if err != nil {
			return nil, err
		}
		a.Groups = append(a.Groups, n)
	}
	return a, nil
}

func id32(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of an account", s)
	}
	return uint32(n), nil
}
