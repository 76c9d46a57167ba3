package client

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// DefaultProject is where jobs go whose spec and options name none.
const DefaultProject = "default"

// Options say which broker, and as whom.
type Options struct {
	Server  string       // the broker's URL, or several with commas; default nats://127.0.0.1:4222, where berth up listens
	Token   string       // of a broker with one token: `berth token` prints it
	Creds   string       // or a NATS credentials file
	Project string       // of jobs whose spec names none; default DefaultProject
	User    string       // whose jobs they are: 1 to 32 of a-z, 0-9, _ and -; needed to submit and to cancel
	Name    string       // shown in the broker's list of connections; default User
	Logger  *slog.Logger // told of disconnections, and of messages that could not be read; default none
}

// FromEnv finds the options where the commands do: in BERTH_SERVER, BERTH_TOKEN, BERTH_CREDS, BERTH_CONTEXT and
// BERTH_PROJECT, else in the file that `berth up` wrote. User is the account in USER. A program hands in os.Environ().
func FromEnv(environ []string) (Options, error) {
	c, _, err := config.LoadClient(config.ClientSources{Environ: environ})
	if err != nil {
		return Options{}, fmt.Errorf("berth client: %w", err)
	}
	o := Options{Server: c.Server, Token: c.Token, Creds: c.Creds, Project: lookup(environ, "BERTH_PROJECT")}
	if user := lookup(environ, "USER"); user != "" {
		o.User = job.TokenOf(user)
	}
	return o, nil
}

// Client is a connection to a broker. It is safe for use by many goroutines.
type Client struct {
	o     Options
	q     *queue.Queue
	close func()
}

// Connect says within two seconds when nobody answers, or the token is not the broker's. Once it stands, the connection
// comes back by itself.
func Connect(ctx context.Context, o Options) (*Client, error) {
	if o.Project == "" {
		o.Project = DefaultProject
	}
	if o.Name == "" {
		o.Name = o.User
	}
	nc, err := queue.Connect(ctx, queue.ConnectOptions{URL: o.Server, Token: o.Token, Creds: o.Creds, Name: o.Name, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("berth client: %w", err)
	}
	q, err := queue.OpenClient(ctx, nc, queue.Options{Logger: o.Logger})
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("berth client: %w", err)
	}
	return &Client{o: o, q: q, close: func() { q.Close(); nc.Close() }}, nil
}

// Close ends the connection, and with it every reader.
func (c *Client) Close() { c.close() }

// lookup finds a variable; the last setting counts, as for exec.
func lookup(environ []string, key string) (value string) {
	for _, kv := range environ {
		if len(kv) > len(key) && kv[:len(key)] == key && kv[len(key)] == '=' {
			value = kv[len(key)+1:]
		}
	}
	return value
}
