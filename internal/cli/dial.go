package cli

import (
	"context"
	"errors"

	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/queue"
)

// Dial opens the queue as a client: who only asks and submits. Close it with done.
func Dial(ctx context.Context, g *Globals) (q *queue.Queue, done func(), err error) {
	to, _, err := g.Client()
	if err != nil {
		return nil, nil, err
	}
	nc, err := queue.Connect(ctx, to)
	if err != nil {
		return nil, nil, brokerError(err)
	}
	q, err = queue.OpenClient(ctx, nc, queue.Options{Now: g.env.Now})
	if err != nil {
		nc.Close()
		return nil, nil, brokerError(err)
	}
	return q, func() { q.Close(); nc.Close() }, nil
}

// Client is how to reach the broker as flags, environment and files say, and where each setting came from.
func (g *Globals) Client() (queue.ConnectOptions, config.Settings, error) {
	c, settings, err := config.LoadClient(config.ClientSources{Flags: g.flags, Environ: g.env.Environ})
	if err != nil {
		return queue.ConnectOptions{}, nil, exit.With(exit.Usage, err)
	}
	return queue.ConnectOptions{URL: c.Server, Token: c.Token, Creds: c.Creds, Name: g.env.User + "@" + g.env.Host}, settings, nil
}

// brokerError gives what the broker said its exit code; an interruption stays one.
func brokerError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return exit.With(exit.Broker, err)
}

// Broker is brokerError for the errors of requests made over an open connection: a job that does not exist, or means
// several, is the caller's.
func Broker(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrAmbiguous), errors.Is(err, queue.ErrFinal):
		return exit.With(exit.Failed, err)
	case errors.Is(err, queue.ErrNotAllowed):
		return exit.With(exit.Broker, err)
	}
	return brokerError(err)
}
