package operator

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/report"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ server, address, want, err string }{
		{"nats://10.0.0.7:4222", "", "nats://10.0.0.7:4222", ""},
		{"nats://0.0.0.0:4300", "", "nats://titan:4300", ""},
		{"tls://[::]:4222", "", "tls://titan:4222", ""},
		{"nats://127.0.0.1:4222", "", "", "listens to this machine alone"},
		{"nats://localhost", "", "", "listens to this machine alone"},
		{"nats://127.0.0.1:4222", "gw.lab", "nats://gw.lab:4222", ""},
		{"nats://a:1,nats://b:2", "", "nats://a:1", ""},
	} {
		got, err := reachable(c.server, c.address, "titan")
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %s: %q, %v; want %q, %q", c.server, c.address, got, err, c.want, c.err)
		}
	}
	for want, c := range map[string]config.Client{
		" BERTH_SERVER=nats://x BERTH_TOKEN=t worker":  {Token: "t"},
		" BERTH_SERVER=nats://x BERTH_CREDS=/c worker": {Creds: "/c"},
		" BERTH_SERVER=nats://x worker":                {},
	} {
		if got := joinLine("nats://x", c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// --store names the folder of both; by default the broker's is the worker's neighbour.
func TestStores(t *testing.T) {
	t.Parallel()
	byDefault := stores(config.Worker{Store: "/var/lib/berth/worker"}, config.Settings{{Name: "store", Layer: config.LayerDefault}})
	if byDefault.worker.Store != "/var/lib/berth/worker" || byDefault.broker != "/var/lib/berth/broker" {
		t.Errorf("by default: %s, %s", byDefault.worker.Store, byDefault.broker)
	}
	named := stores(config.Worker{Store: "/data"}, config.Settings{{Name: "store", Layer: config.LayerFlag}})
	if named.worker.Store != "/data/worker" || named.broker != "/data/broker" {
		t.Errorf("named: %s, %s", named.worker.Store, named.broker)
	}
}

// A restarted broker keeps its token, so that nobody is locked out.
func TestKeptToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := func(environ ...string) *cli.Globals {
		return cli.NewGlobals(&cobra.Command{}, cli.Env{Environ: append(environ, "XDG_CONFIG_HOME="+dir)})
	}
	if token, err := keptToken(g()); token != "" || err != nil {
		t.Errorf("at first: %q, %v", token, err)
	}
	path := filepath.Join(dir, "berth", "client.env")
	if err := config.WriteClientFile(path, config.Client{Server: "nats://x", Token: "SESAME"}); err != nil {
		t.Fatal(err)
	}
	if token, err := keptToken(g()); token != "SESAME" || err != nil {
		t.Errorf("the second time: %q, %v", token, err)
	}
	if token, _ := keptToken(g("BERTH_TOKEN=OTHER")); token != "OTHER" {
		t.Errorf("with BERTH_TOKEN: %q", token)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	began, ended := now.Add(-90*time.Second), now.Add(-30*time.Second)
	for _, c := range []struct{ got, want string }{
		{ranText(queue.JobView{}, now), "-"},
		{ranText(queue.JobView{State: job.Running, StartedAt: &began}, now), "1m30s"},
		{ranText(queue.JobView{State: job.Failed, StartedAt: &began, EndedAt: &ended}, now), "1m"},
		{ranText(queue.JobView{State: job.Queued, StartedAt: &began}, now), "-"}, // between two attempts
		{gpusText(job.Requirements{}), "-"},
		{gpusText(job.Requirements{GPUs: 2}), "2"},
		{gpusText(job.Requirements{GPUs: 2, GPUMemoryMB: 20480}), "2 x 20 GiB"},
		{report.ExitText(nil), ""},
		{report.ExitText(&job.Exit{Code: -1, Signal: "SIGKILL"}), "SIGKILL"},
		{stamp(nil), ""},
		{stamp(&now), "2026-05-01T12:00:00Z"},
		{foreignText(queue.GPU{State: "foreign", Why: "x", Foreign: []string{"bob python 20 GiB"}}), "foreign: bob python 20 GiB"},
		{foreignText(queue.GPU{State: "busy", Why: "is held"}), ""},
		{foreignText(queue.GPU{State: "quarantined", Why: "XID 79"}), "XID 79"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// A name that is reserved for a later version is said to be that.
func ExampleRoot() {
	env := cli.Env{Args: []string{"gpu"}, Stdout: os.Stdout, Stderr: os.Stdout}
	cli.Execute(context.Background(), Root(env), env)
	// Output:
	// berth: berth has no verb "gpu"
	//   did you mean berth gpus?
}
