package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/devices"
	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/runner/shim"
	"golang.org/x/sys/unix"
)

// Options of [New].
type Options struct {
	StoreDir  string       // the worker's store; runs live in its folder "runs"
	Exe       string       // the binary to start as shim; "" = this one, also when it was replaced on disk meanwhile
	NoCgroups bool         // hold runs by process group, subreaper and mark alone
	Spares    int          // shims kept ready, about 2 MiB each: as many as runs may start at once; 0 = 1, negative = none
	Logger    *slog.Logger // nil = silent
}

// Process runs commands as processes of this machine. Safe for concurrent use.
type Process struct {
	runs   string
	exe    string
	tree   cgroup.Tree
	logger *slog.Logger
	waker  *waker
	census census
	spares spares
	slack  time.Duration // guardSlack; tests have less patience

	open error // why a run can open GPUs that it was not given; nil: it cannot
}

var _ Runner = (*Process)(nil)

// New makes the folder of runs and finds out by trial what can hold a run together on this machine.
func New(o Options) (*Process, error) {
	p := &Process{exe: o.Exe, logger: o.Logger, tree: cgroup.Off(), slack: guardSlack}
	if p.exe == "" {
		p.exe = "/proc/self/exe"
	}
	if p.logger == nil {
		p.logger = slog.New(slog.DiscardHandler)
	}
	store, err := filepath.Abs(o.StoreDir)
	if err != nil {
		return nil, fmt.Errorf("the store folder: %w", err)
	}
	p.runs = filepath.Join(store, "runs")
	spareDir := filepath.Join(store, shim.SparesDir)
	for _, dir := range []string{p.runs, spareDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of runs: %w", err)
		}
	}
	if !o.NoCgroups {
		p.tree = cgroup.Probe(func(dir string) error { return probe(p.exe, dir) })
	}
	p.open = devices.Probe(p.tree.Root)
	if p.waker, err = newWaker(); err != nil {
		return nil, err
	}
	p.spares = spares{exe: p.exe, dir: spareDir, tree: p.tree, want: max(0, o.Spares), logger: p.logger}
	if o.Spares == 0 {
		p.spares.want = 1
	}
	p.spares.refill()
	return p, nil
}

// Close ends the worker's side; runs go on. Handles must be released or detached before.
func (p *Process) Close() error {
	p.spares.close()
	return p.waker.close()
}

// Isolation says what holds a run together here.
func (p *Process) Isolation() Isolation {
	text := p.tree.Text + "; the GPUs of others are closed to a run"
	if p.open != nil {
		text = p.tree.Text + "; a run that ignores CUDA_VISIBLE_DEVICES can open the GPUs of others: " + p.open.Error()
	}
	return Isolation{Level: string(p.tree.Level), Text: text, Controllers: p.tree.Controllers, Devices: p.open == nil}
}

// StateDir is the folder of the run with that id.
func (p *Process) StateDir(id string) string { return filepath.Join(p.runs, id) }

// kept is run.json: what a later worker needs to find everything of the run, whatever became of its shim.
type kept struct {
	Version int           `json:"version"`
	ID      string        `json:"id"`
	Mark    string        `json:"mark"`
	Cgroup  string        `json:"cgroup,omitempty"`
	Legacy  cgroup.Legacy `json:"legacy,omitempty"`
	BootID  string        `json:"boot_id"`
	Grace   time.Duration `json:"grace"`
	Lead    time.Duration `json:"lead,omitempty"` // from the checkpoint signal to the stop signal
	At      time.Time     `json:"at"`
	Secrets bool          `json:"secrets,omitempty"` // the run has some; its values are the shim's alone
	After   []string      `json:"after,omitempty"`
	Note    []byte        `json:"note,omitempty"` // the worker's first words; later ones are in a file of their own
}

// keptVersion is raised when a worker of today would misread what one of tomorrow keeps: run.json, and what the shim
// writes beside it.
const keptVersion = 1

const (
	keptFile = "run.json"
	noteFile = "note"
	madeDir  = "made" // an empty folder for Ready.MakeFolder
)

// noteIn is what the worker last noted beside the run in a folder.
func noteIn(dir string) []byte {
	if b, err := os.ReadFile(filepath.Join(dir, noteFile)); err == nil {
		return b
	}
	var k kept
	_ = readJSON(filepath.Join(dir, keptFile), &k) // none, or half of one: nothing was noted
	return k.Note
}

// Start prepares and starts the run. It returns once the command has been exec'ed. A [*StartError] says that the job
// cannot be started; any other error is the machine's or ctx's. After an error nothing of the run is left, neither process
// nor folder. ctx bounds the start, not the run.
func (p *Process) Start(ctx context.Context, run Run) (*Handle, error) {
	ready, err := p.Prepare(ctx, run)
	if err != nil {
		return nil, err
	}
	return ready.Start(ctx, run.Deadline)
}

// Prepare does all that can be done before it is certain that the run may start: a shim has its order and waits for the
// word. Errors are those of Start.
func (p *Process) Prepare(ctx context.Context, run Run) (_ *Ready, err error) {
	defer func() {
		if err != nil {
			p.spares.refill()
		}
	}()
	order, err := orderOf(run)
	if err != nil {
		return nil, err
	}
	order.Folder = run.StateDir
	if order.Folder == "" {
		order.Folder = p.StateDir(run.ID)
	}
	b := p.spares.take()
	if b == nil {
		if b, err = p.spares.newBlank(shim.ArgNow); err != nil {
			return nil, err
		}
	}
	k := kept{Version: keptVersion, ID: run.ID, Mark: order.Mark, BootID: proc.BootID(), Grace: order.Grace, Lead: order.CheckpointBefore, At: time.Now(),
		Secrets: len(order.Secrets) > 0, After: run.After, Note: run.Note,
	}
	if b.group != nil {
		k.Cgroup = b.group.Dir
	}
	if k.Legacy, err = p.tree.CreateLegacy(newToken(), run.Limits); err != nil {
		return nil, errors.Join(err, b.abandon(tracesOf(k, shim.State{})))
	}
	order.Legacy = k.Legacy
	if err := p.commission(ctx, b, k, order, run); err != nil {
		return nil, errors.Join(err, b.abandon(tracesOf(k, shim.State{})))
	}
	return &Ready{p: p, b: b, kept: k}, nil
}

// commission gives a shim its place and its order.
func (p *Process) commission(ctx context.Context, b *blank, k kept, order shim.Order, run Run) error {
	if b.group != nil {
		if err := p.tree.Limit(*b.group, run.Limits); err != nil {
			return err
		}
		if run.GPUMinors != nil && p.open == nil {
			if err := devices.Only(b.group.Dir, *run.GPUMinors); err != nil {
				return err
			}
		}
	}
	if err := os.Rename(b.dir, order.Folder); err != nil {
		return fmt.Errorf("make the folder of run %s: %w", run.ID, err)
	}
	b.dir = order.Folder
	if err := writeScript(b.dir, run); err != nil {
		return fmt.Errorf("write the run's script: %w", err)
	}
	if err := p.give(b.dir, order.Account); err != nil {
		return err
	}
	// The file is there, empty, as long as the folder; whoever reads half of it takes it for none.
	if err := os.WriteFile(filepath.Join(b.dir, keptFile), marshal(k), 0o600); err != nil {
		return fmt.Errorf("write the run's folder: %w", err)
	}
	if err := b.give(ctx, order, run.ExtraFiles); err != nil {
		return fmt.Errorf("the shim did not come up: %w", err)
	}
	return nil
}

// orderOf checks a run and puts it into the shim's words.
func orderOf(run Run) (shim.Order, error) {
	if run.ID == "" || strings.ContainsAny(run.ID, "/\x00@") || strings.HasPrefix(run.ID, ".") {
		return shim.Order{}, fmt.Errorf("run id %q cannot name a folder", run.ID)
	}
	if !filepath.IsAbs(run.Dir) {
		return shim.Order{}, &StartError{Code: 127, Reason: fmt.Sprintf("the workdir %q is not an absolute path", run.Dir)}
	}
	stop, err := signalNumber(run.StopSignal, syscall.SIGTERM)
	if err != nil {
		return shim.Order{}, &StartError{Code: 126, Reason: "stop signal: " + err.Error()}
	}
	o := shim.Order{
		ID: run.ID, Mark: newMark(run.ID), Command: run.Command, Env: run.Env, Dir: run.Dir,
		StopSignal: int(stop), Grace: run.Grace, SessionGrace: run.SessionGrace, TimeLimit: run.TimeLimit,
		LogCap: run.LogCap, First: run.FirstStep, Secrets: run.Secrets, Account: run.Account, After: run.After,
	}
	if o.Steps, err = stepsOf(run); err != nil {
		return shim.Order{}, err
	}
	switch {
	case o.Grace == 0:
		o.Grace = DefaultGrace
	case o.Grace < 0:
		o.Grace = 0
	}
	if o.SessionGrace <= 0 {
		o.SessionGrace = o.Grace
	}
	if c := run.Checkpoint; c != nil {
		sig, err := signalNumber(c.Signal, syscall.SIGUSR1)
		if err != nil {
			return shim.Order{}, &StartError{Code: 126, Reason: "checkpoint signal: " + err.Error()}
		}
		o.CheckpointSignal, o.CheckpointBefore = int(sig), time.Duration(c.Before)
	}
	words := append(append([]string{}, run.Env...), run.Command...)
	for _, s := range run.Steps {
		words = append(append(words, s.Env...), s.Command...)
	}
	for _, entry := range words {
		if strings.ContainsRune(entry, 0) {
			return shim.Order{}, &StartError{Code: 126, Reason: "the command or environment holds a NUL byte"}
		}
	}
	return o, nil
}

// newMark is a sign that no other run on the machine has, also not one of another broker with the same number.
func newMark(id string) string { return "BERTH_RUN_ID=" + id + "@" + newToken() }

func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// bootDeadline puts a time of this process onto the boot clock, which the shim shares and nobody can set.
func bootDeadline(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(1, proc.Boottime()+time.Until(t))
}

// signalNumber reads "SIGUSR1", "USR1" or "".
func signalNumber(name string, def syscall.Signal) (syscall.Signal, error) {
	if name == "" {
		return def, nil
	}
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, "SIG") {
		upper = "SIG" + upper
	}
	if sig := unix.SignalNum(upper); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("no signal is called %q (SIGTERM, SIGINT, SIGUSR1, … are)", name)
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own plain structs
	}
	return b
}

// replaceFile replaces a file as a whole.
func replaceFile(dir, name string, b []byte) error {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
