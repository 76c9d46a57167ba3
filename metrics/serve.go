package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Paths of a metrics address.
const (
	Path      = "/metrics"       // of this process
	FleetPath = "/metrics/fleet" // of all jobs and machines, where somebody follows them
)

// Pages are what an address shows, by path.
type Pages map[string]http.Handler

// Listen takes the address of metrics. Host names and ports as of any server: 127.0.0.1:9464, or :9464 for all.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics cannot be served on %s: %w; choose a free port of this machine", addr, err)
	}
	return l, nil
}

// Serve answers scrapes on l until ctx ends. It reads only: nothing can be changed through it.
func Serve(ctx context.Context, l net.Listener, pages Pages, log *slog.Logger) error {
	m := http.NewServeMux()
	for path, page := range pages {
		m.Handle("GET "+path, page)
	}
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for path := range pages {
			_, _ = fmt.Fprintln(w, strings.TrimSpace(path)) // who asked has gone
		}
	})
	srv := &http.Server{
		Handler: m, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		_ = srv.Close() // a scrape that is cut off is made again
	})
	err := srv.Serve(l)
	stop()
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
