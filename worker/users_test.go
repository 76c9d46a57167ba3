package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

func userMap(t *testing.T, text string) *UserMap {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ReadUserMap(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestUserMap(t *testing.T) {
	t.Parallel()
	m := userMap(t, "# who is who\nada = 1004:1005 umask=0027 nofile=4096 core=0\nops = root allow-root\neve = root\ngone = no-such-account-9 # left\n")
	if _, err := m.Account("ada", true); err == nil || !strings.Contains(err.Error(), "claimed = trust") {
		t.Errorf("a claim was believed: %v", err)
	}
	a, err := m.Account("ada", false)
	if err != nil || a.UID != 1004 || a.GID != 1005 || *a.Umask != 0o027 || a.Limits["nofile"] != 4096 || len(a.Limits) != 2 {
		t.Errorf("ada is %+v: %v", a, err)
	}
	if a, err := m.Account("ops", false); err != nil || a.UID != 0 {
		t.Errorf("ops is %+v: %v", a, err)
	}
	for name, want := range map[string]string{"eve": "allow-root", "gone": "no account no-such-account-9", "bob": "a line in"} {
		if a, err := m.Account(name, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %+v: %v; want %q", name, a, err, want)
		}
	}
	all := userMap(t, "claimed = trust\n* = nobody\n")
	if a, err := all.Account("anybody", true); err != nil || a.UID == 0 || a.Name != "nobody" {
		t.Errorf("anybody is %+v: %v", a, err)
	}
}

func TestUserMapMistakes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "users")
	for text, want := range map[string]string{
		"ada":                         ":1: want USER = ACCOUNT",
		"\nAda Lovelace = ada":        ":2: \"Ada Lovelace\" is no user",
		"ada = ada\nada = bob":        ":2: ada is given twice",
		"ada = ada umask=999":         "want octal digits",
		"ada = ada colour=blue":       "unknown option",
		"ada = ada nofile=many":       "want a number",
		"claimed = maybe\nada = root": "", // an account called maybe, of a user called claimed
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadUserMap(path); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadUserMap(path); err == nil || !strings.Contains(err.Error(), "others can write it") {
		t.Errorf("a map anybody can write: %v", err)
	}
}

// openFolder is a folder that any account can reach; a test's own is root's alone.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-users-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func needsRoot(t *testing.T) {
	t.Helper()
	if !MayChangeUsers() {
		t.Skip("NOT TESTED HERE: changing users needs root; run the tests as root once")
	}
}

// mapped starts a worker that gives the submitter of the tests the account 54321:54322.
func (h *house) mapped(text string) string {
	dir := openFolder(h.t)
	h.work("alpha", func(c *Config) { c.Store, c.Users = filepath.Join(dir, "store"), userMap(h.t, text) })
	return dir
}

// TestFilesBelongToThePerson: the job is who the map says, alone; what it writes is its own; what is Berth's is not.
func TestFilesBelongToThePerson(t *testing.T) {
	needsRoot(t)
	h := newHouse(t, "1x24Gi")
	dir := h.mapped("ann = 54321:54322 umask=0027 nofile=321 core=0\n")
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(work, 54321, 54322); err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{Workdir: work, Command: job.Command{"sh", "{{.Script}}"}, Script: `
echo "$(id -u):$(id -g) groups $(id -G) umask $(umask) files $(ulimit -n) user $USER home $HOME"
echo again > /dev/stdout; echo err > /dev/stderr
touch made; touch "$BERTH_CHECKPOINT_DIR/kept"; echo '{"ok": true}' > "$BERTH_RESULT_FILE"
ls "$BERTH_CHECKPOINT_DIR/.." 2>&1 >/dev/null | grep -q denied && echo "cannot look around"
cat ` + dir + `/store/lock 2>/dev/null || echo "cannot read the worker's"`}
	r := h.result(queue.JobRef(h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}})))
	out, errs := h.logOf(r.Number, 1)
	want := "54321:54322 groups 54322 umask 0027 files 321 user 54321:54322 home /\nagain\ncannot look around\ncannot read the worker's\n"
	if r.State != job.Succeeded || out != want || errs != "err\n" || string(r.Output) != `{"ok":true}` || r.RunAs != "uid 54321:54322" {
		t.Errorf("%s %q as %q, output %s\n%q, want\n%q\nstderr %q", r.State, r.Reason, r.RunAs, r.Output, out, want, errs)
	}
	info, err := os.Stat(filepath.Join(work, "made"))
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 54321 || s.Gid != 54322 || info.Mode().Perm() != 0o640 {
		t.Errorf("the file belongs to %d:%d, mode %v", s.Uid, s.Gid, info.Mode())
	}
}

// TestNobodyBecomesRoot: who has no account, or only a claim, or would be root, does not run; the next job does.
func TestNobodyBecomesRoot(t *testing.T) {
	needsRoot(t)
	h := newHouse(t, "")
	dir := h.mapped("ann = root\nbob = 54321:54322\n")
	for _, c := range []struct {
		user    string
		claimed bool
		want    string
	}{{"ann", false, "allow-root"}, {"eve", false, "has no account on this machine"}, {"bob", true, "nothing proves"}} {
		ran := filepath.Join(dir, "ran-"+c.user)
		r := h.as(c.user, c.claimed, job.Spec{Workdir: "/", Command: job.Command{"touch", ran}})
		if _, err := os.Stat(ran); err == nil || r.State != job.Failed || !strings.Contains(r.Reason, c.want) || r.RunAs != "" {
			t.Errorf("%s: %s %q, ran %v", c.user, r.State, r.Reason, err == nil)
		}
	}
	if r := h.as("bob", false, job.Spec{Workdir: "/", Command: job.Command{"true"}}); r.State != job.Succeeded {
		t.Errorf("bob: %s %s", r.State, r.Reason)
	}
}

// as sends a job of that user and waits for its result.
func (h *house) as(user string, claimed bool, spec job.Spec) job.Result {
	h.t.Helper()
	r, err := h.queue.Submit(h.t.Context(), job.Job{Spec: spec, Project: "lab", User: user, UserClaimed: claimed})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.result(queue.JobRef(r.Number))
}

// TestFoldersOfOthers: what root may enter, run and write says nothing about the person.
func TestFoldersOfOthers(t *testing.T) {
	needsRoot(t)
	h := newHouse(t, "")
	dir := h.mapped("ann = 54321:54322\n")
	closed, program := filepath.Join(dir, "closed"), filepath.Join(dir, "program")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, workdir string
		command       job.Command
		code          int
		want          string
	}{
		{"workdir", closed, job.Command{"true"}, 126, "cannot be entered: permission denied"},
		{"program", dir, job.Command{program}, 126, "is not executable"},
		{"unwritable", dir, job.Command{"touch", "made"}, 1, "permission denied"},
		{"missing", dir, job.Command{"no-such-program-9"}, 127, "command not found"},
	} {
		r := h.as("ann", false, job.Spec{Workdir: c.workdir, Command: c.command})
		if r.State != job.Failed || r.Exit.Code != c.code || !strings.Contains(r.Reason, c.want) {
			t.Errorf("%s: %s %v %q; want %d, %q", c.name, r.State, r.Exit, r.Reason, c.code, c.want)
		}
	}
	// A link among the job's own files leads Berth nowhere.
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("safe"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{Workdir: dir, TimeLimit: job.Duration(1e9), Command: job.Command{"sh", "-c",
		fmt.Sprintf("ln -s %s $BERTH_STOP_REASON_FILE; ln -s %s $BERTH_RESULT_FILE; ln -s %s $BERTH_PROGRESS; exec sleep 100", victim, victim, victim)}}
	r := h.as("ann", false, spec)
	if b, err := os.ReadFile(victim); r.State != job.TimedOut || string(b) != "safe" || r.Output != nil || r.Progress != nil {
		t.Errorf("%s; the other's file holds %q (%v), output %s", r.State, b, err, r.Output)
	}
	if r := h.as("ann", false, job.Spec{Workdir: dir, Command: job.Command{"true"}}); r.State != job.Succeeded {
		t.Errorf("the next job: %s %s", r.State, r.Reason)
	}
}

// TestRootHasToBeTold: a worker that is root and has neither a map nor the word is not made.
func TestRootHasToBeTold(t *testing.T) {
	t.Parallel()
	m := &UserMap{}
	for _, c := range []struct {
		users   *UserMap
		allowed bool
		refused bool
	}{{nil, false, MayChangeUsers()}, {nil, true, false}, {m, false, false}, {m, true, false}} {
		if err := CheckRoot(c.users, c.allowed); (err != nil) != c.refused {
			t.Errorf("map %v, allowed %v: %v", c.users != nil, c.allowed, err)
		}
	}
	needsRoot(t)
	_, err := New(Config{Machine: "alpha", Store: t.TempDir(), Queue: new(queue.Queue), Source: func(context.Context, func() map[string][]int) (telemetry.Source, error) {
		return nil, errors.New("not asked")
	}})
	if !errors.Is(err, ErrRoot) {
		t.Errorf("a worker was made: %v", err)
	}
}

// TestRunsAsItself: without a map everything runs as the worker, and the worker says so.
func TestRunsAsItself(t *testing.T) {
	h := newHouse(t, "")
	w := h.work("alpha")
	r := h.as("ann", true, job.Spec{Workdir: "/", Command: job.Command{"true"}})
	if r.State != job.Succeeded || r.RunAs != ownAccount() {
		t.Errorf("%s as %q", r.State, r.RunAs)
	}
	if text := w.machine().RunsAs; !strings.HasPrefix(text, "everything as "+ownAccount()) {
		t.Errorf("the machine says %q", text)
	}
}
