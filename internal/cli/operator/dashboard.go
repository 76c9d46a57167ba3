package operator

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/submit"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/web"
)

// defaultHTTP is where the dashboard is, unless somebody says otherwise.
const defaultHTTP = "127.0.0.1:7070"

// leanGC is how much garbage a dashboard's process may gather beside what it keeps, percent.
const leanGC = 40

// pageFlags are those of a dashboard.
type pageFlags struct {
	listen string
	open   bool
	hosts  []string
	given  bool // the address was said, so it must work
	demo   bool
	// anywhere: a free port will do when the usual one is taken
	anywhere bool

	metrics string // an address; "": only behind the token, on the dashboard's own
}

func (f *pageFlags) bind(s *pflag.FlagSet) {
	s.StringVar(&f.listen, "http", defaultHTTP, "where the dashboard is, `HOST:PORT`; empty is nowhere")
	s.BoolVar(&f.open, "http-open", false, "let everybody who reaches the dashboard read it; actions always need its token")
	s.StringSliceVar(&f.hosts, "http-host", nil, "a `NAME` under which browsers reach the dashboard, beside localhost and addresses")
}

func newDashboard(g *cli.Globals) *cobra.Command {
	var f pageFlags
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "serve the dashboard",
		Long: "Serve pages with jobs, GPUs, machines and usage, live. It prints the address to open, with a token in it: who has\n" +
			"the token may read and act. It stays the same: dashboard.token, beside client.env, keeps it; without that file the\n" +
			"next start makes another.",
		Example: "  berth dashboard\n  berth dashboard --http 0.0.0.0:7070 --http-host gpu1.example.org --http-open",
		Args:    cli.Takes(0, 0, ""),
	}
	cmd.Flags().SortFlags = false
	f.bind(cmd.Flags())
	cmd.Flags().StringVar(&f.metrics, "metrics", "", "serve Prometheus metrics at `HOST:PORT` too, without a token")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.listen == "" {
			return exit.Errorf(exit.Usage, "a dashboard needs an address").Hinted("berth dashboard --http %s", defaultHTTP)
		}
		f.given = true
		if g.Env().Getenv("GOGC") == "" {
			// Most of what this process holds is the index of all jobs, which stays: room for as much garbage again would
			// double it.
			defer debug.SetGCPercent(debug.SetGCPercent(leanGC))
		}
		return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
			to, _, err := g.Client()
			if err != nil {
				return err
			}
			p, err := openPages(g, f, q, to)
			if err != nil {
				return err
			}
			if !g.Console().TTY {
				_, _ = fmt.Fprintln(g.Out(), p.url) // for a program that starts it
			}
			if f.metrics != "" {
				page := p.server.Metrics()
				end, err := worker.ServeMetrics(f.metrics, metrics.Pages{metrics.Path: page, metrics.FleetPath: page}, worker.Logger(g))
				if err != nil {
					return exit.With(exit.Failed, errors.Join(err, p.listener.Close()))
				}
				defer end()
			}
			return p.server.Serve(ctx, p.listener)
		})
	}
	return cmd
}

// served is a dashboard that has its address.
type served struct {
	server   *web.Server
	listener net.Listener
	url      string
}

// openPages takes the address and says it. nil: the usual address is taken, and nobody insisted.
func openPages(g *cli.Globals, f pageFlags, q *queue.Queue, to queue.ConnectOptions) (*served, error) {
	l, err := net.Listen("tcp", f.listen)
	if err != nil && f.anywhere {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil && !f.given {
		g.Say("no dashboard: %v; --http HOST:PORT chooses another address", err)
		return nil, nil //nolint:nilnil // documented: none, and that is fine
	}
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "the dashboard cannot listen on %s: %w", f.listen, err).Hinted("--http 127.0.0.1:7071, or another free port")
	}
	options := pagesFor(g, f, q, to)
	if options.Token, err = keptPageToken(g, f); err != nil {
		return nil, exit.With(exit.Failed, errors.Join(err, l.Close()))
	}
	s := web.New(options)
	p := &served{s, l, s.URL(l)}
	if term := g.Console(); term.TTY && !g.Quiet {
		fmt.Fprintf(g.Env().Stderr, "%s at %s\n", term.Paint(screen.Bold, "dashboard"), p.url)
	}
	return p, nil
}

// keptPageToken is the token of the dashboard before, so that open pages and bookmarks outlive a restart. "" lets the
// dashboard make one: a demonstration leaves nothing behind, and without a home folder there is nowhere to keep it.
func keptPageToken(g *cli.Globals, f pageFlags) (string, error) {
	path, err := clientFile(g.Env())
	if err != nil || f.demo {
		return "", nil //nolint:nilerr // documented
	}
	token, err := config.KeptToken(filepath.Join(filepath.Dir(path), "dashboard.token"), rand.Text)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		g.Say("a restart of the dashboard will have another token: %v", err)
		return "", nil
	}
	return token, err
}

// pagesFor gives the dashboard what the commands know.
func pagesFor(g *cli.Globals, f pageFlags, q *queue.Queue, to queue.ConnectOptions) web.Options {
	env := g.Env()
	return web.Options{
		Queue: q, Logger: worker.Logger(g), Now: env.Now, By: cli.Me(env).User, Open: f.open, Demo: f.demo || q.Demo(), Hosts: lower(f.hosts),
		Explain: func(ctx context.Context, ref queue.Ref) (any, error) {
			facts, err := explain.Gather(ctx, q, ref, env.Now())
			if err != nil {
				return nil, err
			}
			return explain.Why(facts), nil
		},
		Explained: reflect.TypeFor[explain.Explanation](),
		Reasons: func(ctx context.Context, views []queue.JobView) error {
			return explain.Reasons(ctx, q, views, env.Now())
		},
		Submit: func(ctx context.Context, spec []byte) ([]byte, error) { return submitSpec(ctx, env, to, spec) },
		Leases: func(ctx context.Context, machine string) ([]queue.HeldLease, error) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			return q.Leases(ctx, machine, cli.Me(env))
		},
	}
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToLower(n)
	}
	return out
}

// submitSpec is the command submit with a spec on its standard input.
func submitSpec(ctx context.Context, env cli.Env, to queue.ConnectOptions, spec []byte) ([]byte, error) {
	var out, complaints bytes.Buffer
	env.Args = []string{"-f", "-", "-o", "json"}
	env.Stdin, env.Stdout, env.Stderr = bytes.NewReader(spec), &out, &complaints
	env.Notify = func(chan<- os.Signal, ...os.Signal) {} // signals are the dashboard's
	env.Environ = append(withoutBroker(env.Environ), "BERTH_SERVER="+to.URL)
	if to.Token != "" {
		env.Environ = append(env.Environ, "BERTH_TOKEN="+to.Token)
	}
	if to.Creds != "" {
		env.Environ = append(env.Environ, "BERTH_CREDS="+to.Creds)
	}
	if code := cli.Execute(ctx, submit.Root(env), env); code != 0 {
		return nil, errors.New(strings.TrimSpace(complaints.String()))
	}
	return out.Bytes(), nil
}

func withoutBroker(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "BERTH_SERVER", "BERTH_TOKEN", "BERTH_CREDS", "BERTH_CONTEXT":
		default:
			kept = append(kept, kv)
		}
	}
	return kept
}
