package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/runner"
)

// bare is the path without Berth: a work queue, a prioritized consumer, a bucket, results, and the same shim.
type bare struct {
	tb      testing.TB
	nc      *nats.Conn
	js      jetstream.JetStream
	records jetstream.KeyValue
	run     *runner.Process
	slots   []*slot
	payload []byte
	jobs    int // numbered over the whole benchmark
}

// slot is one place for a job, with an inbox of its own for its pulls.
type slot struct {
	b     *bare
	nc    *nats.Conn
	inbox string
	sub   *nats.Subscription
}

// task is what a message of the bare queue says.
type task struct {
	Number  int
	Command []string
	Padding []byte // as many bytes as a job of Berth has
}

const (
	nextTask = "$JS.API.CONSUMER.MSG.NEXT.BENCH_JOBS.lane"
	pullFor  = 10 * time.Second
)

func newBare(tb testing.TB, nc *nats.Conn, slots int) *bare {
	tb.Helper()
	b := &bare{tb: tb, nc: nc, payload: make([]byte, 512)}
	var err error
	if b.js, err = jetstream.New(nc); err != nil {
		tb.Fatal(err)
	}
	ctx := tb.Context()
	stream, err := b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "BENCH_JOBS", Subjects: []string{"bench.jobs"}, Retention: jetstream.WorkQueuePolicy, Duplicates: 10 * time.Minute,
	})
	if err != nil {
		tb.Fatal(err)
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "lane", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1, MaxWaiting: 8192,
		PriorityPolicy: jetstream.PriorityPolicyPrioritized, PriorityGroups: []string{"g"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err = b.js.CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH_RESULTS", Subjects: []string{"bench.results.*"}}); err != nil {
		tb.Fatal(err)
	}
	if b.records, err = b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bench_records"}); err != nil {
		tb.Fatal(err)
	}
	if b.run, err = runner.New(runner.Options{StoreDir: tb.TempDir()}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.run.Close() })
	for range slots {
		b.addSlot(nc)
	}
	return b
}

// addSlot adds a place for a job whose pulls go over nc.
func (b *bare) addSlot(nc *nats.Conn) {
	b.tb.Helper()
	s := &slot{b: b, nc: nc, inbox: nc.NewInbox()}
	var err error
	if s.sub, err = nc.SubscribeSync(s.inbox); err != nil {
		b.tb.Fatal(err)
	}
	b.slots = append(b.slots, s)
}

// publish puts one task on the queue, durably.
func (b *bare) publish(ctx context.Context, number int) error {
	data, err := json.Marshal(task{Number: number, Command: trivial, Padding: b.payload})
	if err != nil {
		return err
	}
	_, err = b.js.Publish(ctx, "bench.jobs", data, jetstream.WithMsgID(fmt.Sprint("task.", number)))
	return err
}

// ask leaves a waiting pull.
func (s *slot) ask() error {
	request, err := json.Marshal(map[string]any{"batch": 1, "expires": pullFor, "group": "g", "priority": 0})
	if err != nil {
		return err
	}
	return s.nc.PublishRequest(nextTask, s.inbox, request)
}

// take waits for a task, asking again as often as a pull runs out.
func (s *slot) take(ctx context.Context) (*nats.Msg, error) {
	for {
		msg, err := s.sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		if msg.Header.Get("Status") == "" {
			return msg, nil
		}
		if err := s.ask(); err != nil {
			return nil, err
		}
	}
}

// exec runs the task under a shim and returns when its command was started.
func (b *bare) exec(ctx context.Context, t task) (runner.Exit, error) {
	h, err := b.run.Start(ctx, runner.Run{ID: fmt.Sprintf("%d.1", t.Number), Command: t.Command, Env: os.Environ(), Dir: "/"})
	if err != nil {
		return runner.Exit{}, err
	}
	exit, err := h.Wait(ctx)
	if err != nil {
		return exit, err
	}
	return exit, h.Release()
}

// dispatch is the time from before the publish to the exec, on an idle queue with a pull waiting.
func (b *bare) dispatch(ctx context.Context) time.Duration {
	b.tb.Helper()
	s := b.slots[0]
	if err := errors.Join(s.ask(), b.nc.Flush()); err != nil {
		b.tb.Fatal(err)
	}
	b.waits(ctx, 1)
	b.jobs++
	began := time.Now()
	if err := b.publish(ctx, b.jobs); err != nil {
		b.tb.Fatal(err)
	}
	msg, err := s.take(ctx)
	if err != nil {
		b.tb.Fatal(err)
	}
	return b.started(ctx, msg).Sub(began)
}

// started executes a task, to its end, and says when that began.
func (b *bare) started(ctx context.Context, msg *nats.Msg) time.Time {
	b.tb.Helper()
	var t task
	if err := json.Unmarshal(msg.Data, &t); err != nil {
		b.tb.Fatal(err)
	}
	exit, err := b.exec(ctx, t)
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := msg.AckSync(); err != nil {
		b.tb.Fatal(err)
	}
	return exit.StartedAt
}

// waits returns when so many pulls wait at the broker.
func (b *bare) waits(ctx context.Context, pulls int) {
	b.tb.Helper()
	eventually(b.tb, func() bool {
		c, err := b.js.Consumer(ctx, "BENCH_JOBS", "lane")
		return err == nil && c.CachedInfo().NumWaiting >= pulls
	})
}

// work does n trivial jobs through all slots: publish, pull, shimmed exec, one compare-and-set, double acknowledgement,
// result. It returns the time from the first publish to the last result.
func (b *bare) work(ctx context.Context, n int) time.Duration {
	b.tb.Helper()
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	group, ctx := errgroup.WithContext(ctx)
	var ended atomic.Int64
	began, took := time.Now(), time.Duration(0)
	done := func() {
		if ended.Add(1) == int64(n) {
			took = time.Since(began)
			enough()
		}
	}
	for _, s := range b.slots {
		group.Go(func() error { return s.serve(ctx, done) })
	}
	first := b.jobs
	b.jobs += n
	group.Go(func() error { return inParallel(submitters, n, func(i int) error { return b.publish(ctx, first+i+1) }) })
	err := group.Wait()
	if ended.Load() != int64(n) {
		b.tb.Fatalf("%d of %d jobs ended: %v", ended.Load(), n, err)
	}
	return took
}

func (s *slot) serve(ctx context.Context, done func()) error {
	for {
		if err := s.ask(); err != nil {
			return err
		}
		msg, err := s.take(ctx)
		if err != nil {
			return err
		}
		if err := s.finish(ctx, msg); err != nil {
			return err
		}
		done()
	}
}

func (s *slot) finish(ctx context.Context, msg *nats.Msg) error {
	var t task
	if err := json.Unmarshal(msg.Data, &t); err != nil {
		return err
	}
	exit, err := s.b.exec(ctx, t)
	if err != nil {
		return err
	}
	data, err := json.Marshal(exit)
	if err != nil {
		return err
	}
	if _, err := s.b.records.Create(ctx, fmt.Sprint(t.Number), data); err != nil {
		return err
	}
	if err := msg.AckSync(); err != nil {
		return err
	}
	_, err = s.b.js.Publish(ctx, fmt.Sprintf("bench.results.%d", t.Number), data, jetstream.WithMsgID(fmt.Sprint("result.", t.Number)))
	return err
}
