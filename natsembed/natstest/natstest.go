// Package natstest gives a test a real broker of its own.
//
//	b := natstest.New(t)
//	nc := b.Connect()        // closed with the test
//	b.Stop(); b.Start()      // same store, same address: clients reconnect
//
// The server is that of package natsembed with one difference: writes are not forced to the disk each time, as no test
// cuts the power.
package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/natsembed"
)

// syncInterval of a test's broker.
const syncInterval = 2 * time.Minute

// Broker is a server that can be stopped and started again on the same store and the same address.
type Broker struct {
	tb   testing.TB
	opts natsembed.Options
	srv  *natsembed.Server
	url  string
}

// New starts a broker with a store in a temporary folder, on a loopback port, without a token; change says what is to
// be different. It ends with the test.
func New(tb testing.TB, change ...func(*natsembed.Options)) *Broker {
	tb.Helper()
	b := &Broker{tb: tb, opts: natsembed.Options{StoreDir: tb.TempDir(), NoToken: true, SyncInterval: syncInterval}}
	for _, c := range change {
		c(&b.opts)
	}
	b.listen()
	tb.Cleanup(b.Stop)
	return b
}

// WithToken makes the broker ask for token.
func WithToken(token string) func(*natsembed.Options) {
	return func(o *natsembed.Options) { o.Token, o.NoToken = token, false }
}

// listen starts the broker on a port it keeps over restarts. Ports the kernel hands out to outgoing connections
// (32768 and up) could be taken while the broker is down, so it looks for one below.
func (b *Broker) listen() {
	b.tb.Helper()
	if b.opts.Listen != "" {
		b.Start()
		return
	}
	var err error
	for range 50 {
		b.opts.Listen = net.JoinHostPort("127.0.0.1", fmt.Sprint(20000+rand.IntN(12000)))
		if b.srv, err = natsembed.Start(b.opts); err == nil {
			b.url = b.srv.ClientURL()
			return
		}
	}
	b.tb.Fatalf("no broker on any of 50 ports: %v", err)
}

// URL of the broker, the same over restarts.
func (b *Broker) URL() string { return b.url }

// Token clients must show; "" when none is asked for.
func (b *Broker) Token() string { return b.opts.Token }

// StoreDir of the broker.
func (b *Broker) StoreDir() string { return b.opts.StoreDir }

// Start starts a stopped broker again on its store and address.
func (b *Broker) Start() {
	b.tb.Helper()
	srv, err := natsembed.Start(b.opts)
	if err != nil {
		b.tb.Fatalf("start the broker: %v", err)
	}
	b.srv, b.url = srv, srv.ClientURL()
	b.opts.Token = srv.Token()
}

// Stop stops the broker; its store stays.
func (b *Broker) Stop() {
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv = nil
	}
}

// Connect opens a connection that reconnects for ever and is closed with the test.
func (b *Broker) Connect(options ...nats.Option) *nats.Conn {
	b.tb.Helper()
	all := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.Token(b.Token())}
	nc, err := nats.Connect(b.url, append(all, options...)...)
	if err != nil {
		b.tb.Fatalf("connect to the test broker: %v", err)
	}
	b.tb.Cleanup(nc.Close)
	return nc
}
