package lease

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/proc"
)

// desk is a broker and a machine that only answers questions: what it says is the test's.
type desk struct {
	t   *testing.T
	url string
}

func newDesk(t *testing.T, m queue.Machine, d queue.LeaseDesk) desk {
	t.Helper()
	broker := natstest.New(t)
	q, err := queue.Open(t.Context(), broker.Connect(), queue.Options{LogBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	d.Machine = m.Name
	go func() { done <- q.ServeLeases(ctx, d) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		q.Close()
	})
	if err := q.Announce(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for { // it listens once it answers
		if _, err := q.Leases(t.Context(), m.Name, queue.Me{Project: "p", User: "u"}); err == nil {
			return desk{t, broker.URL()}
		}
	}
}

// says runs a command as ada and returns its code and what it said.
func (d desk) says(args ...string) (int, string) {
	var out bytes.Buffer
	env := cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, User: "ada", Host: "here", Now: time.Now,
		Environ: []string{"BERTH_SERVER=" + d.url, "XDG_CONFIG_HOME=" + d.t.TempDir()}, Notify: func(chan<- os.Signal, ...os.Signal) {},
	}
	root := &cobra.Command{Use: "berth"}
	g := cli.NewGlobals(root, env)
	root.AddCommand(New(g), NewRun(g))
	return cli.Execute(d.t.Context(), root, env), out.String()
}

func (d desk) wants(code int, text string, args ...string) {
	d.t.Helper()
	if got, said := d.says(args...); got != code || !strings.Contains(said, text) {
		d.t.Errorf("berth %q: exit %d, %q\nwant exit %d, %q", args, got, said, code, text)
	}
}

func TestStrangersAndImpossibleWishes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, queue.Machine{Name: "m1", Boot: proc.BootID(), PIDSpace: "another container"}, queue.LeaseDesk{
		Held: func() []queue.HeldLease { return []queue.HeldLease{holds(6, "bob", 4), holds(8, "ada", 0, 1)} },
		Room: func(_ context.Context, r job.Requirements) queue.Room {
			return queue.Room{Never: r.GPUs > 2, Text: fmt.Sprintf("no room for %d", r.GPUs)}
		},
	})
	d.wants(exit.Broker, "4 is leased by bob (lease 6), you are ada", "lease", "release", "--gpus", "4")
	d.wants(exit.Failed, "your lease 8 has the GPUs 0,1", "lease", "release", "1")
	d.wants(exit.Failed, "no such job", "lease", "release", "77")
	d.wants(exit.Failed, "you have no lease on GPU-z", "lease", "release", "GPU-z")
	d.wants(exit.Refused, "can never be given: no room for 3", "lease", "get", "-g", "3")
	d.wants(exit.NothingFree, "nothing is free: no room for 2", "lease", "get", "-g", "2", "--wait", "0")
	d.wants(exit.Usage, "runs in another container and sees other processes", "lease", "get", "--pid", fmt.Sprint(os.Getpid()))
	d.wants(exit.Usage, "runs in another container", "run", "--", "true")
	d.wants(exit.Usage, "that ends 2 leases: 6 of bob on GPU 4, 8 of ada on GPU 0,1", "lease", "reset")
	d.wants(exit.Usage, "exclude each other", "lease", "release", "--gpus", "--number", "1")
	d.wants(exit.Usage, "want for example 30m", "lease", "get", "--for", "")
}

func TestLeaseOnAnotherMachine(t *testing.T) {
	t.Parallel()
	d := newDesk(t, queue.Machine{Name: "m1", Boot: "another boot"}, queue.LeaseDesk{
		Held: func() []queue.HeldLease { return nil },
		Room: func(context.Context, job.Requirements) queue.Room { return queue.Room{OK: true} },
	})
	d.wants(exit.Refused, "no worker runs on this machine (here)", "lease", "get")
	d.wants(exit.Refused, "connected: m1", "run", "--", "true")
	d.wants(exit.Usage, "is a process of this machine, the lease is on m1", "lease", "get", "--machine", "m1", "--pid", fmt.Sprint(os.Getpid()))
}

// A wish says what is wrong with it before anybody is asked.
func ExampleNew() {
	env := cli.Env{Args: []string{"lease", "get", "--gpus", "0"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stdout, User: "ada", Now: time.Now}
	root := &cobra.Command{Use: "berth"}
	root.AddCommand(New(cli.NewGlobals(root, env)))
	fmt.Println(cli.Execute(context.Background(), root, env))
	// Output:
	// berth: resources.gpus: a lease holds GPUs: want 1 or more
	// 2
}
