package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// DefaultServer is where `berth up` listens.
const DefaultServer = "nats://127.0.0.1:4222"

// connectTimeout is how long a person waits to hear that no broker is there.
const connectTimeout = 2 * time.Second

// ConnectOptions say which broker and as whom.
type ConnectOptions struct {
	URL       string                     // one or several, separated by commas; default DefaultServer
	Token     string                     // of a broker with one shared token (`berth up`)
	Creds     string                     // a NATS credentials file
	Name      string                     // shown in the broker's connection list
	Timeout   time.Duration              // for the first connection, in all; default 2 s
	InProcess nats.InProcessConnProvider // an embedded server; URL is not used then
	Logger    *slog.Logger               // told of disconnections and refusals; default none
	Options   []nats.Option              // added last
}

// Connect returns a connection that reconnects for ever once it stood. The first connection is tried once, so that a
// person who mistyped the address hears it within two seconds.
func Connect(ctx context.Context, o ConnectOptions) (*nats.Conn, error) {
	if o.URL == "" {
		o.URL = DefaultServer
	}
	if o.Timeout <= 0 {
		o.Timeout = connectTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	nc, err := nats.Connect(o.URL, o.natsOptions(ctx)...)
	if err != nil {
		return nil, o.explain(err)
	}
	return nc, nil
}

func (o ConnectOptions) natsOptions(ctx context.Context) []nats.Option {
	servers := strings.Count(o.URL, ",") + 1
	each := max(o.Timeout/time.Duration(servers), 200*time.Millisecond)
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(each),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		// A broker that comes back may refuse for a moment; only the first connection takes "no" for an answer.
		nats.IgnoreAuthErrorAbort(),
		// Nothing is kept for later while the connection is down: a submit whose caller was told that it failed must not
		// be stored a minute after. What must arrive is published again until it is acknowledged.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err != nil && !nc.IsClosed() {
				o.Logger.Warn("broker_disconnected", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { o.Logger.Info("broker_reconnected", "server", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			o.Logger.Warn("broker_refused", "subject", subject, "err", err)
		}),
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.InProcess != nil {
		opts = append(opts, nats.InProcessServer(o.InProcess))
	} else if deadline, ok := ctx.Deadline(); ok {
		opts = append(opts, nats.Timeout(min(each, max(time.Until(deadline), time.Millisecond))))
	}
	return append(opts, o.Options...)
}

// explain turns what the client library says into what is wrong, where, and the likely fix.
func (o ConnectOptions) explain(err error) error {
	where := o.redacted()
	var network net.Error
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		if o.Token == "" && o.Creds == "" {
			return fmt.Errorf("%w at %s: no token or credentials were given; `berth token` on the broker's machine prints "+
				"the token for BERTH_TOKEN, BERTH_CREDS names a credentials file (%w)", ErrUnauthorized, where, err)
		}
		return fmt.Errorf("%w at %s: the token or credentials are not the broker's; compare BERTH_TOKEN with `berth token` "+
			"on its machine (%w)", ErrUnauthorized, where, err)
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("%w: %s wants TLS (or does not offer it): use tls://… in BERTH_SERVER (%w)", ErrUnreachable, where, err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.As(err, &network):
		return fmt.Errorf("%w at %s: is it running? `berth up` starts one here, --server or BERTH_SERVER names another (%w)",
			ErrUnreachable, where, err)
	}
	return fmt.Errorf("connect to %s: %w", where, err)
}

// redacted is the address without a password in it.
func (o ConnectOptions) redacted() string {
	if o.InProcess != nil {
		return "the embedded broker"
	}
	all := strings.Split(o.URL, ",")
	for i, s := range all {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil {
			all[i] = u.Redacted()
		}
	}
	return strings.Join(all, ", ")
}
