package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

// mine takes GPU $1 for a moment and fails when anybody else has it: mkdir is atomic.
const mine = `mine() { mkdir "$LOCKS/gpu$1" || { echo "GPU $1 is shared" >&2; exit 9; }; sleep 0.0$(($$ % 5)); rmdir "$LOCKS/gpu$1" || exit 9; }; `

// loops are the ways in which a script leases: by index, by UUID, and with berth run.
var loops = []string{
	`for i in $(seq $ROUNDS); do g=$(berth lease get --pid $$ --short=index) || exit 1; mine $g; berth lease release --gpus $g || exit 2; done`,
	`for i in $(seq $ROUNDS); do u=$(berth lease get --pid $$) || exit 1; mine $(cat $LOCKS/$u); berth lease release $u || exit 2; done`,
	`for i in $(seq $ROUNDS); do berth run -- sh -c "$MINE"'mine $BERTH_GPU_INDICES' || exit $?; done`,
	`for i in $(seq $ROUNDS); do g=$(berth lease get -g 2 --pid $$ --short=index) || exit 1; mine ${g%,*}; mine ${g#*,}; berth lease release --gpus $g || exit 2; done`,
}

// contest is a broker, a worker with four GPUs and the environment in which shells compete for them.
type contest struct {
	t      *testing.T
	broker *natstest.Broker
	queue  *queue.Queue
	env    []string
	locks  string
}

func newContest(t *testing.T) *contest {
	t.Helper()
	dir := t.TempDir()
	c := &contest{t: t, broker: natstest.New(t), locks: t.TempDir()}
	c.env = append(os.Environ(), "BERTH_SERVER="+c.broker.URL(), "BERTH_TOKEN=", "XDG_CONFIG_HOME="+dir, "BERTH_WORKER_ALLOW_ROOT=true", "BERTH_WORKER_STORE="+filepath.Join(dir, "store"),
		"GORACE=atexit_sleep_ms=0", "LOCKS="+c.locks, "MINE="+mine)
	q, err := queue.OpenClient(t.Context(), c.broker.Connect(), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	c.queue = q
	return c
}

// command is a program with its output kept.
func (c *contest) command(name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(name, args...)
	out := &bytes.Buffer{}
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, out, out
	return cmd, out
}

// work starts the worker and writes down which UUID is which index.
func (c *contest) work() {
	c.t.Helper()
	cmd, out := c.command("worker", "--name", "contest", "--gpu-source", "sim:4x24Gi", "--settle", "0s")
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || c.t.Failed() {
			c.t.Logf("worker: %v\n%s", err, out)
		}
	})
	ctx, found := context.WithTimeout(c.t.Context(), patience)
	defer found()
	var gpus []queue.GPU
	err := c.queue.WatchMachines(ctx, func(m queue.Machine) { gpus = m.GPUs; found() }, func(string) {})
	if len(gpus) != 4 {
		c.t.Fatalf("the worker announced %d GPUs: %v", len(gpus), err)
	}
	for _, g := range gpus {
		if err := os.WriteFile(filepath.Join(c.locks, g.UUID), []byte(strconv.Itoa(g.Index)), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestShellLoopsNeverShareAGPU lets shells compete for four GPUs through the lease, beside jobs of the queue.
func TestShellLoopsNeverShareAGPU(t *testing.T) {
	t.Parallel()
	shells, rounds := 12, 2
	if os.Getenv("BERTH_LONG") != "" {
		shells, rounds = 150, 2
	}
	c := newContest(t)
	c.work()
	c.env = append(c.env, fmt.Sprint("ROUNDS=", rounds))
	command := job.Command{"sh", "-c", mine + "mine $BERTH_GPU_INDICES"}
	jobs := c.submit(shells, command)
	began := time.Now()
	var group sync.WaitGroup
	for i := range shells {
		group.Go(func() {
			cmd, out := c.command("sh", "-c", mine+loops[i%len(loops)])
			if err := cmd.Run(); err != nil {
				t.Errorf("shell %d (%s): %v\n%s", i, loops[i%len(loops)], err, out)
			}
		})
	}
	group.Wait()
	t.Logf("%d shells, %d leases and %d jobs in %s", shells, shells*rounds, shells, time.Since(began).Round(time.Millisecond))
	c.succeeded(jobs)
	c.booksAgree(shells * rounds)
}

// submit queues one array of jobs that take a GPU for a moment.
func (c *contest) submit(n int, command job.Command) uint64 {
	c.t.Helper()
	locks := c.locks
	spec := job.Spec{
		Command: command, Array: fmt.Sprint("1-", n), Env: map[string]*string{"LOCKS": &locks}, Workdir: c.locks,
		Resources: job.Resources{GPUs: job.CountOf(1)},
	}
	tasks, err := job.Expand(spec)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := c.queue.Submit(c.t.Context(), job.Job{Project: "default", User: "queue", Spec: spec, Requirements: job.Requirements{GPUs: 1}, Tasks: tasks})
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Number
}

func (c *contest) succeeded(number uint64) {
	c.t.Helper()
	r, err := c.queue.WaitResult(c.t.Context(), queue.JobRef(number))
	if err != nil || r.State != job.Succeeded {
		c.t.Errorf("the jobs of the queue: %s %s, %v", r.State, r.Reason, err)
	}
}

// booksAgree checks that as many leases were given back as were taken, and that nothing is held.
func (c *contest) booksAgree(leases int) {
	c.t.Helper()
	me := queue.Me{Project: "default", User: "referee"}
	for { // berth run has ended before its worker has noticed
		held, err := c.queue.Leases(c.t.Context(), "contest", me)
		if err != nil {
			c.t.Fatal(err)
		}
		events, err := c.queue.Events(c.t.Context(), queue.LeaseEvent, time.Time{})
		if err != nil {
			c.t.Fatal(err)
		}
		took, back := 0, 0
		for _, e := range events {
			switch {
			case e.Text == "took":
				took++
			case strings.HasPrefix(e.Text, "released by"), strings.HasPrefix(e.Text, "its process"):
				back++
			default:
				c.t.Errorf("lease %s ended: %s", e.Job, e.Text)
			}
		}
		if took == leases && back == leases && len(held) == 0 {
			return
		}
		if took > leases || c.t.Failed() || c.t.Context().Err() != nil {
			c.t.Fatalf("%d leases taken, %d given back, %d held; there were %d", took, back, len(held), leases)
		}
		time.Sleep(20 * time.Millisecond) // there is no event for "the log is complete"
	}
}
