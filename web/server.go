package web

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/queue"
)

//go:embed assets
var embedded embed.FS

// Options of a dashboard. Queue, Logger and Now are needed; what is nil among the rest is not offered.
type Options struct {
	Queue  *queue.Queue
	Logger *slog.Logger
	Now    func() time.Time
	By     string // who acts, in events
	Token  string // "": one is made
	Open   bool   // reading needs no token
	Demo   bool   // say on every page that this is a demonstration
	// Hosts are names under which the dashboard may be asked for, beside loopback and plain addresses.
	Hosts []string

	Explain   func(ctx context.Context, ref queue.Ref) (any, error) // why a job waits
	Explained reflect.Type                                          // what Explain answers, for the document of the API

	Reasons func(ctx context.Context, views []queue.JobView) error               // the word of each that waits
	Submit  func(ctx context.Context, spec []byte) (receipt []byte, err error)   // as the command submit does
	Leases  func(ctx context.Context, machine string) ([]queue.HeldLease, error) // what is held on a machine
}

// Server is one dashboard.
type Server struct {
	o       Options
	hub     *hub
	tails   *tails
	started time.Time
	files   http.Handler
	// document is the API in OpenAPI, made once.
	document func() ([]byte, error)
	ctx      context.Context // of what runs behind requests, from Serve on
}

// New makes a dashboard; Serve runs it.
func New(o Options) *Server {
	if o.Token == "" {
		o.Token = rand.Text()
	}
	sub, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // a constant path
	}
	return &Server{o: o, hub: newHub(o.Queue, o.Logger, o.Now), tails: newTails(o.Queue), started: o.Now(), files: http.FileServerFS(sub), document: sync.OnceValues(func() ([]byte, error) { return describe(o.Explained) })}
}

// Token is what lets a browser act.
func (s *Server) Token() string { return s.o.Token }

// Loaded is closed when everything that the broker keeps has been read.
func (s *Server) Loaded() <-chan struct{} { return s.hub.loaded }

// URL is the address for people, with the token.
func (s *Server) URL(l net.Listener) string {
	return fmt.Sprintf("http://%s/login?token=%s", reachable(l.Addr().String()), s.o.Token)
}

func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// Serve answers on l until ctx ends, then lets requests end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() { wg.Wait(); s.tails.wg.Wait() }()
	defer stop()
	s.ctx = ctx
	wg.Add(1)
	go func() { defer wg.Done(); s.hub.run(ctx) }()
	srv := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // live streams end with it
		ErrorLog:    slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if srv.Shutdown(end) != nil {
			_ = srv.Close() // what is still open after 3 s is cut
		}
	}()
	err := srv.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Handler is the dashboard as a handler.
func (s *Server) Handler() http.Handler {
	m := http.NewServeMux()
	s.routes(m)
	m.HandleFunc("GET /login", s.login)
	m.HandleFunc("POST /login", s.login)
	m.HandleFunc("GET /assets/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.StripPrefix("/assets/", s.files).ServeHTTP(w, r)
	})
	for _, p := range pages {
		m.HandleFunc("GET "+p.path, s.page(p))
	}
	return s.guard(m)
}

// routes are the API's.
func (s *Server) routes(m *http.ServeMux) {
	for _, r := range api {
		if r.stream != nil {
			m.HandleFunc(r.pattern, func(w http.ResponseWriter, q *http.Request) { r.stream(s, w, q) })
			continue
		}
		m.HandleFunc(r.pattern, s.answer(func(q *http.Request) (any, error) { return r.do(s, q) }))
	}
	m.Handle("GET "+metrics.Path, s.Metrics())
	m.HandleFunc("/api/", s.answer(func(r *http.Request) (any, error) {
		return nil, refuse(http.StatusNotFound, "no such path: %s", strings.ToValidUTF8(r.URL.Path, "?"))
	}))
}
