package natsembed

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is a running broker.
type Server struct {
	ns    *server.Server
	lock  io.Closer
	token string
	url   string
	stop  sync.Once
}

// Start runs a server and returns when it takes connections, or with the reason why it cannot.
func Start(o Options) (*Server, error) {
	if o.Token == "" && !o.NoToken {
		o.Token = NewToken()
	}
	opts, err := o.serverOptions()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("natsembed: store folder: %w", err)
	}
	lock, err := lockStore(o.StoreDir)
	if err != nil {
		return nil, err
	}
	ns, err := run(opts, newLogAdapter(o.Logger))
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("natsembed: start on %s: %w", o.StoreDir, err)
	}
	s := &Server{ns: ns, lock: lock, token: o.Token}
	if addr, ok := ns.Addr().(*net.TCPAddr); ok && !opts.DontListen {
		s.url = clientURL(opts, addr)
	}
	return s, nil
}

// run starts the server. It tells a failed start only to its logger, so that is where the reason comes from.
func run(opts *server.Options, log *logAdapter) (*server.Server, error) {
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	if err := log.startError(); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, err
	}
	return ns, nil
}

// clientURL is the address clients of this machine use: a wildcard host becomes loopback.
func clientURL(opts *server.Options, addr *net.TCPAddr) string {
	scheme := "nats"
	if opts.TLSConfig != nil {
		scheme = "tls"
	}
	host := opts.Host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// ClientURL is the address of the port, without the token; "" when there is none.
func (s *Server) ClientURL() string { return s.url }

// Token is what clients must show; "" when the server asks for none.
func (s *Server) Token() string { return s.token }

// Connect opens a connection inside the process, with no port and no TLS, the token included. It cannot outlive the
// server: a server started again on the same folder needs a new connection.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	all := append([]nats.Option{nats.InProcessServer(s.ns), nats.Token(s.token)}, options...)
	nc, err := nats.Connect(nats.DefaultURL, all...)
	if err != nil {
		return nil, fmt.Errorf("natsembed: connect in process: %w", err)
	}
	return nc, nil
}

// InProcessConn makes Server fit nats.InProcessServer, for callers that build their own options.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// Shutdown stops the server, waits until its store is written and closed, and frees the folder. Calling it again does
// nothing.
func (s *Server) Shutdown() {
	s.stop.Do(func() {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		s.lock.Close()
	})
}
