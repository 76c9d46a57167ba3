package cli_test

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/queue"
)

// patience is how long anything may take on a loaded machine before a script fails.
const patience = 90 * time.Second

// processesKey finds what one script started.
type processesKey struct{}

type processes struct {
	mu      sync.Mutex
	running map[string]*process
}

type process struct {
	cmd  *exec.Cmd
	log  *output
	done chan struct{}
	err  error
	told bool // its log is in the script's
}

// output is what a process has said so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func of(ts *testscript.TestScript) *processes { return ts.Value(processesKey{}).(*processes) }

func unescape(s string) (string, error) { return strconv.Unquote(`"` + s + `"`) }

// broker [TOKEN]: start one; BERTH_SERVER and BERTH_TOKEN say where it is.
func startBroker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: broker [TOKEN]")
	}
	o := natsembed.Options{StoreDir: ts.MkAbs("nats"), Listen: "127.0.0.1:0", SyncInterval: time.Minute}
	if len(args) == 1 {
		o.Token = args[0]
	}
	s, err := natsembed.Start(o)
	ts.Check(err)
	ts.Defer(s.Shutdown)
	ts.Setenv("BERTH_SERVER", s.ClientURL())
	ts.Setenv("BERTH_TOKEN", s.Token())
}

// start NAME PROGRAM [ARG...]: run it beside the script, which ends it at the latest at its own end.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM [ARG...]")
	}
	path, err := lookPath(ts, args[1])
	ts.Check(err)
	p := &process{cmd: exec.Command(path, args[2:]...), log: &output{}, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = ts.MkAbs("."), environ(ts)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	all := of(ts)
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.running == nil {
		all.running = map[string]*process{}
	}
	all.running[args[0]] = p
	ts.Defer(func() {
		if !p.told {
			p.end()
			ts.Logf("[%s]\n%s", args[0], p.log)
		}
	})
}

// environ is what the script's own programs see, as far as scripts set it.
func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "WORK", "TMPDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "BERTH_WORKER_STORE", "BERTH_WORKER_ALLOW_ROOT", "BERTH_SERVER", "BERTH_TOKEN", "GOCOVERDIR"} {
		if v := ts.Getenv(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	return env
}

// end interrupts the process until it has ended: the first lets its runs finish, the next ones stop them. They are
// repeated because two signals sent at once may arrive as one.
func (p *process) end() {
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	late := time.After(patience)
	for {
		_ = p.cmd.Process.Signal(syscall.SIGINT) // it may have ended meanwhile
		select {
		case <-p.done:
			return
		case <-again.C:
		case <-late:
			_ = p.cmd.Process.Kill()
			<-p.done
			return
		}
	}
}

// end NAME SIGNAL CODE: the process ends with that code after the signal; its output is the script's stdout.
func endProcess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: end NAME INT|TERM|KILL|none CODE")
	}
	p := of(ts).running[args[0]]
	if p == nil {
		ts.Fatalf("%s was not started", args[0])
	}
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	if s, ok := signals[args[1]]; ok {
		ts.Check(p.cmd.Process.Signal(s))
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s goes on after %s:\n%s", args[0], args[1], p.log)
	}
	p.told = true
	ts.Logf("[%s]\n%s", args[0], p.log)
	if got := strconv.Itoa(codeOf(p.err)); p.err != nil && got != args[2] || p.err == nil && args[2] != "0" {
		ts.Fatalf("%s ended with %s, want %s", args[0], got, args[2])
	}
	_, _ = ts.Stdout().Write([]byte(p.log.String()))
}

// await broker | machine NAME | state ID STATE | dead COUNT | explain ID REASON | output NAME TEXT: wait until it is so.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: await broker | machine NAME | state ID STATE | output NAME TEXT")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q, done := open(ctx, ts)
	defer done()
	switch args[0] {
	case "explain":
		awaitReason(ctx, ts, q, args[1], args[2])
	case "dead":
		awaitDead(ctx, ts, q, args[1])
	case "broker": // open waited for it
	case "output":
		awaitOutput(ctx, ts, of(ts).running[args[1]], args[2])
	case "machine":
		awaitMachine(ctx, ts, q, args[1])
	case "gpu":
		awaitGPU(ctx, ts, q, args[1], args[2], args[3])
	case "state":
		awaitState(ctx, ts, q, args[1], args[2])
	default:
		ts.Fatalf("await what? %q", args[0])
	}
}

func awaitMachine(ctx context.Context, ts *testscript.TestScript, q *queue.Queue, name string) {
	watch, found := context.WithCancel(ctx)
	defer found()
	for _, p := range of(ts).running {
		if p.told {
			continue // the script ended it
		}
		go func() {
			select {
			case <-p.done: // no machine will come of it
				found()
			case <-watch.Done():
			}
		}()
	}
	seen := false
	err := q.WatchMachines(watch, func(m queue.Machine) {
		if m.Name == name {
			seen = true
			found()
		}
	}, func(string) {})
	if !seen {
		ts.Fatalf("machine %s did not come: %v", name, err)
	}
}

// awaitGPU waits until a machine announces that a GPU of it has that state.
func awaitGPU(ctx context.Context, ts *testscript.TestScript, q *queue.Queue, machine, index, state string) {
	watch, found := context.WithCancel(ctx)
	defer found()
	seen := ""
	err := q.WatchMachines(watch, func(m queue.Machine) {
		for _, g := range m.GPUs {
			if m.Name == machine && strconv.Itoa(g.Index) == index {
				seen = g.State
			}
		}
		if seen == state {
			found()
		}
	}, func(string) {})
	if seen != state {
		ts.Fatalf("GPU %s of %s is %q, not %s: %v", index, machine, seen, state, err)
	}
}

func awaitOutput(ctx context.Context, ts *testscript.TestScript, p *process, text string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.log.String(), text) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("it never said %q:\n%s", text, p.log)
		}
	}
}

// awaitReason waits until the job is said to wait for that reason: presence brings it, now and then.
func awaitReason(ctx context.Context, ts *testscript.TestScript, q *queue.Queue, id, reason string) {
	ref, err := queue.ParseRef(id)
	ts.Check(err)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		facts, err := explain.Gather(ctx, q, ref, time.Now())
		ts.Check(err)
		got := explain.Why(facts)
		if got.Reason == reason {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("job %s waits because of %s (%s), not %s", id, got.Reason, got.Text, reason)
		}
	}
}

// awaitDead waits until there are so many dead letters.
func awaitDead(ctx context.Context, ts *testscript.TestScript, q *queue.Queue, want string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := q.Dead(ctx, "")
		ts.Check(err)
		if strconv.Itoa(len(all)) == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%d dead letters, not %s", len(all), want)
		}
	}
}

// awaitState looks at the job until it has that state: there is no event for every one of them.
func awaitState(ctx context.Context, ts *testscript.TestScript, q *queue.Queue, id, state string) {
	ref, err := queue.ParseRef(id)
	ts.Check(err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := q.Show(ctx, ref)
		ts.Check(err)
		if string(v.State) == state {
			return
		}
		if v.State.Final() {
			ts.Fatalf("job %s is %s (%s), it will not be %s", id, v.State, v.Reason, state)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("job %s is %s, not %s", id, v.State, state)
		}
	}
}

// sent COUNT: so many jobs have been stored, whatever became of them.
func sent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sent COUNT")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q, done := open(ctx, ts)
	defer done()
	c, err := q.Counts(ctx)
	ts.Check(err)
	if strconv.FormatUint(c.Jobs, 10) != args[0] {
		ts.Fatalf("%d jobs were sent, not %s", c.Jobs, args[0])
	}
}

// open connects as the commands of the script do, and waits for a broker that is only starting.
func open(ctx context.Context, ts *testscript.TestScript) (*queue.Queue, func()) {
	for {
		c, _, err := config.LoadClient(config.ClientSources{Environ: environ(ts)})
		ts.Check(err)
		nc, err := queue.Connect(ctx, queue.ConnectOptions{URL: c.Server, Token: c.Token, Name: "script", Timeout: 20 * time.Second})
		if errors.Is(err, queue.ErrUnreachable) && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond) // connecting is the only way to learn that it listens
			continue
		}
		ts.Check(err)
		q, err := queue.OpenClient(ctx, nc, queue.Options{})
		ts.Check(err)
		return q, func() { q.Close(); nc.Close() }
	}
}

// publish SUBJECT TEXT: a message that no command of ours would send; waits until the broker has it. \x escapes are
// understood.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: publish SUBJECT TEXT")
	}
	body := args[1]
	if strings.Contains(body, `\x`) {
		var err error
		body, err = unescape(body)
		ts.Check(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc, err := queue.Connect(ctx, queue.ConnectOptions{URL: ts.Getenv("BERTH_SERVER"), Token: ts.Getenv("BERTH_TOKEN"), Timeout: patience})
	ts.Check(err)
	defer nc.Close()
	m, err := nc.RequestWithContext(ctx, args[0], []byte(body))
	ts.Check(err)
	ts.Logf("%s: %s", args[0], m.Data)
}
