package client_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/berthq/berth/client"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// notDone are the kinds of events that doDeeds does not bring about: a dead letter takes a broken job.
var notDone = []string{queue.EventDrop, queue.EventProbe}

// doDeeds does what leaves an event of every other kind, and waits until the last is stored.
func (s *site) doDeeds(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	nc, err := queue.Connect(ctx, queue.ConnectOptions{URL: s.url, Token: s.token})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	q, err := queue.OpenClient(ctx, nc, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}

	later, priority, weight := time.Now().Add(time.Hour), 80, 2.0
	waits, err := c.Submit(ctx, job.Spec{Command: job.Command{"true"}, Workdir: "/", Begin: &later})
	do("submit", err)
	ref := client.Job(waits.Number)
	do("hold", q.Hold(ctx, ref, "ada", "look at the data first"))
	_, err = q.Set(ctx, ref, "ada", queue.Change{Priority: &priority})
	do("set", err)
	do("release", q.Release(ctx, ref, "ada"))
	_, err = c.Cancel(ctx, ref, "")
	do("cancel", err)
	do("retry", q.Retry(ctx, ref, "ada", false))

	do("quarantine", q.Quarantine(ctx, "gpu07", "1", "bob", "noisy fan"))
	do("restore", q.Restore(ctx, "gpu07", "1", "bob", "new fan"))
	do("drain", q.Drain(ctx, "gpu07", "bob", "a new driver", 0))
	do("undrain", q.Undrain(ctx, "gpu07", "bob"))
	_, err = q.SetProject(ctx, "vision", "bob", func(p *queue.Project) { p.Weight = &weight })
	do("project", err)
	s.lease(ctx, t, c, q)
}

// lease takes a GPU, gives it back, and waits until both are in the log.
func (s *site) lease(ctx context.Context, t *testing.T, c *client.Client, q *queue.Queue) {
	t.Helper()
	anHour := job.Duration(time.Hour)
	receipt, err := q.Submit(ctx, job.Job{
		Project: "lab", User: "ada", Requirements: job.Requirements{GPUs: 1, Machine: "gpu07"},
		Spec: job.Spec{Kind: job.KindLease, Lease: &job.Lease{For: &anHour}, Resources: job.Resources{GPUs: job.CountOf(1), Machine: "gpu07"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ref, told := client.Job(receipt.Number), 0
	for e, err := range c.Events(ctx, client.EventQuery{Kind: queue.EventLease, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if told++; told == 2 {
			if e.Value.Job != ref.String() || e.Value.Facts["indexes"] == "" {
				t.Errorf("the lease given back: %+v", e.Value)
			}
			return
		}
		if _, err := q.ReleaseLease(ctx, ref, "ada", "done", false); err != nil {
			t.Fatal(err)
		}
	}
}

// kindsOf are the kinds of all events that are stored.
func kindsOf(ctx context.Context, t *testing.T, c *client.Client) (kinds []string) {
	t.Helper()
	for e, err := range c.Events(ctx, client.EventQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(queue.EventKinds(), e.Value.Kind) {
			t.Errorf("an event of a kind that EventKinds does not know: %+v", e.Value)
		}
		kinds = append(kinds, e.Value.Kind)
	}
	return kinds
}
