package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berthq/berth/client"
	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/sim"
	"github.com/berthq/berth/worker"
)

// site is what a program meets: a broker at an address, with a token, and a worker with two simulated GPUs.
type site struct {
	url, token, dir string
	stop            func() error
}

// open starts a site; it has a folder of its own.
func open() (*site, error) {
	dir, err := os.MkdirTemp("", "berth-client-")
	if err != nil {
		return nil, err
	}
	broker, err := natsembed.Start(natsembed.Options{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "broker"), Token: "a-token-of-the-test"})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &site{url: broker.ClientURL(), token: broker.Token(), dir: dir}
	stopWorker, err := s.work(broker)
	if err != nil {
		broker.Shutdown()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.stop = func() error {
		err := stopWorker()
		broker.Shutdown()
		return errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *site) work(broker *natsembed.Server) (stop func() error, err error) {
	nc, err := broker.Connect()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	q, err := queue.Open(ctx, nc, queue.Options{})
	if err != nil {
		return nil, err
	}
	w, err := worker.New(worker.Config{
		Machine: "gpu07", Store: filepath.Join(s.dir, "worker"), Queue: q, AllowRoot: true,
		Source: func(_ context.Context, holders func() map[string][]int) (telemetry.Source, error) {
			cards, err := sim.Parse("2x24Gi")
			if err != nil {
				return nil, err
			}
			return sim.New(cards, holders)
		},
		Slots: gpuslots.Options{LockDir: filepath.Join(s.dir, "locks")},
	})
	if err != nil {
		return nil, err
	}
	claim, drain := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(claim, ctx) }()
	return func() error {
		drain()
		err := <-done
		q.Close()
		nc.Close()
		if errors.Is(err, context.Canceled) { // it was still beginning
			return nil
		}
		return err
	}, nil
}

// connect is how a program begins.
func (s *site) connect(ctx context.Context) (*client.Client, error) {
	return client.Connect(ctx, client.Options{Server: s.url, Token: s.token, Project: "lab", User: "pipeline"})
}

// withSite shows an example against a broker and a worker that are really there.
func withSite(show func(ctx context.Context, c *client.Client) error) {
	s, err := open()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	c, err := s.connect(ctx)
	if err == nil {
		err = show(ctx, c)
		c.Close()
	}
	if err = errors.Join(err, s.stop()); err != nil {
		fmt.Println(err)
	}
}
