package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/queue"
)

// upFlags are those of the broker; the worker's come beside them.
type upFlags struct {
	listen   string
	noWorker bool
	insecure bool
	demo     bool
	install  bool
	service  worker.Installation
	pace     float64 // of the demonstration
	pages    pageFlags
	cert     string
	key      string
}

func newUp(g *cli.Globals) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "start everything on this machine: the broker, a worker and the dashboard, in one process",
		Long: "Start a NATS server with JetStream, a worker and a dashboard in this process. It makes a token and writes it, with its address,\n" +
			"where every command on this machine finds it (client.env, readable by you alone).\n" +
			"Ctrl-C drains (what runs is finished), Ctrl-C again stops what runs; SIGTERM leaves it to the next berth up.",
		Example: "  berth up\n  berth up --gpu-source sim:4x24Gi          # no GPU needed\n" +
			"  berth up --demo                           # a made-up day on simulated GPUs, in a folder of its own\n" +
			"  berth up --listen 0.0.0.0:4222 --tls-cert cert.pem --tls-key key.pem --no-worker\n" +
			"  sudo berth up --install --now             # as a service of systemd",
		Args: cli.Takes(0, 0, ""),
	}
	s := cmd.Flags()
	s.SortFlags = false
	s.StringVar(&f.listen, "listen", "127.0.0.1:4222", "where the broker listens, `HOST:PORT`")
	s.BoolVar(&f.noWorker, "no-worker", false, "the broker and the dashboard alone")
	f.pages.bind(s)
	f.bindDemo(s)
	s.StringVar(&f.cert, "tls-cert", "", "certificate `FILE` of the broker, for an address that others reach")
	s.StringVar(&f.key, "tls-key", "", "its private key `FILE`")
	s.BoolVar(&f.insecure, "insecure", false, "let others reach it without TLS: token and jobs are readable on the network")
	own := flagNames(s)
	settings := worker.Bind(cmd)
	f.bindInstall(cmd)
	s.Lookup("store").Usage = "folder for the broker's streams and the state of runs"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.pages.given = cmd.Flags().Changed("http")
		if err := f.checkInstall(cmd); err != nil {
			return err
		}
		if f.demo {
			if !cmd.Flags().Changed("listen") {
				f.listen = "127.0.0.1:0" // beside a real one
			}
			if err := f.checkDemo(cmd); err != nil {
				return err
			}
			return upDemo(cmd.Context(), g, f)
		}
		w, from, err := settings.Load(g.Env())
		if err != nil {
			return err
		}
		f.tell(&w, from)
		if f.install {
			return f.writeService(cmd, g, w, from, own)
		}
		return up(cmd.Context(), g, f, stores(w, from))
	}
	return cmd
}

// tell settles what root's own berth up means: a broker that only this machine reaches, with a token only root can read,
// has root's jobs alone. Where others reach it, somebody has to say so.
func (f upFlags) tell(w *config.Worker, from config.Settings) {
	if s, ok := from.Get("allow-root"); ok && s.Layer == config.LayerDefault && w.Users == "" {
		w.AllowRoot = natsembed.OnlyHere(f.listen)
	}
}

// stored are the folders of one berth up.
type stored struct {
	worker config.Worker // its Store is the runs'
	broker string
}

// stores puts the broker's folder beside the worker's: DIR/worker and DIR/broker under the folder that --store names.
func stores(w config.Worker, from config.Settings) stored {
	if s, ok := from.Get("store"); ok && s.Layer == config.LayerDefault {
		return stored{w, filepath.Join(filepath.Dir(w.Store), "broker")}
	}
	root := w.Store
	w.Store = filepath.Join(root, "worker")
	return stored{w, filepath.Join(root, "broker")}
}

func up(ctx context.Context, g *cli.Globals, f upFlags, at stored) error {
	log := worker.Logger(g)
	if err := worker.CheckRoot(at.worker); err != nil && !f.noWorker {
		return err
	}
	signals, stop := worker.Signals(ctx, g.Env(), g.Env().Stderr)
	defer stop()
	broker, err := startBroker(g, f, at.broker, log)
	if err != nil {
		return err
	}
	defer broker.Shutdown() // last: what runs still reports to it
	nc, err := queue.Connect(ctx, queue.ConnectOptions{InProcess: broker, Token: broker.Token(), Name: "berth up", Logger: log})
	if err != nil {
		return cli.Broker(err)
	}
	defer nc.Close()
	q, err := queue.Open(ctx, nc, worker.QueueOptions(at.worker, g.Env(), log))
	if err != nil {
		return cli.Broker(err)
	}
	defer q.Close()
	// Only now: who reads the file finds a broker with everything in it.
	if err := greet(g, f, broker); err != nil {
		return err
	}
	beside, err := startBeside(g, f, q, queue.ConnectOptions{URL: broker.ClientURL(), Token: broker.Token()}, log)
	if err != nil {
		return err
	}
	defer beside.end() // the pages show how it ends
	if !f.noWorker {
		return worker.Serve(signals, g, at.worker, q, broker.ClientURL(), beside.metrics, log)
	}
	if addr := at.worker.Metrics; addr != "" && beside.metrics != nil {
		end, err := worker.ServeMetrics(addr, beside.metrics, log)
		if err != nil {
			return exit.With(exit.Failed, err)
		}
		defer end()
	}
	log.Info("broker_ready", "server", broker.ClientURL())
	<-signals.Claim.Done()
	return nil
}

// beside is what runs beside the worker: the dashboard.
type beside struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	metrics metrics.Pages // of the dashboard
}

func (b *beside) end() {
	b.stop()
	b.wg.Wait()
}

func startBeside(g *cli.Globals, f upFlags, q *queue.Queue, to queue.ConnectOptions, log *slog.Logger) (*beside, error) {
	ctx, stop := context.WithCancel(context.Background()) // it ends after the worker, by end
	b := &beside{stop: stop}
	if f.pages.listen != "" {
		p, err := openPages(g, f.pages, q, to)
		if err != nil {
			stop()
			return nil, err
		}
		if p != nil {
			log.Info("dashboard", "address", p.listener.Addr().String())
			b.metrics = metrics.Pages{metrics.FleetPath: p.server.Metrics()}
			b.wg.Go(func() {
				if err := p.server.Serve(ctx, p.listener); err != nil {
					log.Error("dashboard_ended", "err", err)
				}
			})
			if !g.Console().TTY { // in a service's journal, which is as closed as the token's file
				g.Say("dashboard at %s", p.url)
			}
		}
	}
	return b, nil
}

func startBroker(g *cli.Globals, f upFlags, store string, log *slog.Logger) (*natsembed.Server, error) {
	token, err := keptToken(g)
	if err != nil {
		return nil, err
	}
	cert, err := f.certificate()
	if err != nil {
		return nil, err
	}
	broker, err := natsembed.Start(natsembed.Options{StoreDir: store, Listen: f.listen, Token: token, TLS: cert, Insecure: f.insecure, Logger: log})
	if errors.Is(err, natsembed.ErrExposed) {
		return nil, exit.Errorf(exit.Usage, "%s can be reached from other machines", f.listen).
			Hinted("give it --tls-cert and --tls-key, or --insecure in a network you trust, or listen on 127.0.0.1")
	}
	if err != nil {
		return nil, exit.With(exit.Failed, err)
	}
	return broker, nil
}

// keptToken is the token of the berth up before, so that a restart locks nobody out: BERTH_TOKEN, or what the client
// file on this machine has. "" lets the broker make one.
func keptToken(g *cli.Globals) (string, error) {
	env := g.Env()
	if token := env.Getenv("BERTH_TOKEN"); token != "" {
		return token, nil
	}
	path, err := clientFile(env)
	if err != nil {
		return "", exit.With(exit.Usage, err)
	}
	before, err := config.ReadClientFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", exit.Errorf(exit.Failed, "the token of the broker before: %w", err)
	}
	return before.Token, nil
}

// clientFile is where this user's commands find the broker. A service of the machine has no home: it is everybody's.
func clientFile(env cli.Env) (string, error) {
	system := os.Geteuid() == 0 && config.Folder(env.Environ, false) == ""
	return config.ClientFile(env.Environ, system)
}

func (f upFlags) certificate() (*tls.Config, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, exit.Errorf(exit.Usage, "--tls-cert and --tls-key belong together")
	}
	if f.cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "the certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// greet writes where the commands of this machine find the broker, and says so.
func greet(g *cli.Globals, f upFlags, broker *natsembed.Server) error {
	path, err := clientFile(g.Env())
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if err := config.WriteClientFile(path, config.Client{Server: broker.ClientURL(), Token: broker.Token()}); err != nil {
		return exit.With(exit.Failed, err)
	}
	term := g.Console()
	if !term.TTY || g.Quiet {
		return nil
	}
	w := g.Env().Stderr
	fmt.Fprintf(w, "%s at %s, token in %s\n", term.Paint(screen.Bold, "broker"), broker.ClientURL(), path)
	if f.insecure {
		fmt.Fprintln(w, term.Paint(screen.Yellow, "others can reach it, and read what passes: --insecure"))
	}
	_, err = fmt.Fprintf(w, "in another terminal: submit -- nvidia-smi   berth status   berth join (a second machine)\n\n")
	return err
}
