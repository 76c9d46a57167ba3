package natsembed

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Pings find a dead client within half a minute. The server's own default takes four: so long would the waiting pulls
// of a dead worker swallow jobs.
const (
	PingInterval = 10 * time.Second
	PingsOut     = 2
)

// maxMemoryStore bounds streams kept in memory. Berth keeps none; the default of NATS would be 75 % of the machine.
const maxMemoryStore = 256 << 20

// Options say how the server runs. StoreDir is all it needs.
type Options struct {
	// StoreDir holds the streams. It is made when missing, and locked while the server runs.
	StoreDir string

	// Listen is "host:port"; port 0 takes a free one. "" opens no port: clients use Connect.
	Listen string

	// Token every client must show; "" makes a fresh one (see Server.Token). NoToken lets in whoever reaches the port.
	Token   string
	NoToken bool

	// TLS is demanded of every client of the port when set.
	TLS *tls.Config

	// Insecure allows an address beyond loopback without TLS or without a token.
	Insecure bool

	// SyncInterval is how often written messages are forced to the disk. 0 forces each one before it is confirmed,
	// so that a power cut loses nothing that was accepted. See docs/decisions/0010-sync-always.md for its price.
	SyncInterval time.Duration

	// MaxStore is the most bytes of StoreDir the streams may take together; 0 is what the disk has free at start.
	MaxStore int64

	// Name of the server in its own messages; "" is "berth".
	Name string

	// Logger receives the server's warnings and errors, its notices at debug level; nil drops them.
	Logger *slog.Logger
}

// ErrExposed is wrapped by the refusal of an address that others can reach without TLS and a token.
var ErrExposed = errors.New("the address can be reached from other machines")

// NewToken makes a token for Options.Token: 26 letters and digits, 130 bits.
func NewToken() string { return rand.Text() }

// serverOptions translates o, complete but for the logger.
func (o Options) serverOptions() (*server.Options, error) {
	if o.StoreDir == "" {
		return nil, errors.New("natsembed: no store folder: name one, NATS would otherwise use a temporary one")
	}
	if o.SyncInterval < 0 || o.MaxStore < 0 {
		return nil, errors.New("natsembed: the sync interval and the store limit must not be negative")
	}
	opts := &server.Options{
		ServerName:         o.Name,
		JetStream:          true,
		StoreDir:           o.StoreDir,
		JetStreamMaxMemory: maxMemoryStore,
		JetStreamMaxStore:  o.MaxStore,
		SyncInterval:       o.SyncInterval,
		SyncAlways:         o.SyncInterval == 0,
		PingInterval:       PingInterval,
		MaxPingsOut:        PingsOut,
		NoSigs:             true, // signals belong to the command
		Authorization:      o.Token,
		TLS:                o.TLS != nil,
		TLSConfig:          o.TLS,
	}
	if opts.ServerName == "" {
		opts.ServerName = "berth"
	}
	if o.Listen == "" {
		opts.DontListen = true
		return opts, nil
	}
	return opts, o.listenOn(opts)
}

// listenOn fills in the address, after making sure that nobody opens a broker to the network by mistake.
func (o Options) listenOn(opts *server.Options) error {
	host, portText, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("natsembed: listen address %q: want host:port, for example 127.0.0.1:4222: %w", o.Listen, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return fmt.Errorf("natsembed: listen address %q: the port must be a number from 0 to 65535", o.Listen)
	}
	switch {
	case isLoopback(host) || o.Insecure:
	case o.TLS == nil:
		return fmt.Errorf("natsembed: listen address %q: %w: give it TLS, listen on 127.0.0.1, or say --insecure", o.Listen, ErrExposed)
	case o.NoToken:
		return fmt.Errorf("natsembed: listen address %q: %w: it needs a token", o.Listen, ErrExposed)
	}
	opts.Host, opts.Port = host, int(port)
	if port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return nil
}

// OnlyHere reports whether a broker that listens at HOST:PORT can be reached from this machine alone.
func OnlyHere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && isLoopback(host)
}

// isLoopback reports whether only this machine reaches host. A name other than localhost may resolve to anything.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
