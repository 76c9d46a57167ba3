package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/job"
)

const (
	// clerkBatch is how many jobs one clerk takes at a time: enough to pipeline the publishes, few enough to share.
	clerkBatch = 64

	// freshSize is the longest job message that is worth keeping for its run.
	freshSize = 16 << 10

	// clerkAckWait is when another clerk gets what a crashed one had.
	clerkAckWait = 10 * time.Second
)

// clerk turns jobs into lane messages. Every worker runs one; all share one durable consumer on the jobs stream, so each
// job is with one of them, and with the next if that one dies. It keeps nothing: what it has done is in the streams.
type clerk struct {
	q      *Queue
	groups *errgroup.Group

	mu      sync.Mutex
	keepers map[uint64]*keeper // of the groups this clerk keeps, by number
}

// RunClerk does the clerk's duty until ctx ends.
func (q *Queue) RunClerk(ctx context.Context) error {
	c := &clerk{q: q, keepers: map[uint64]*keeper{}}
	var groupCtx context.Context
	c.groups, groupCtx = errgroup.WithContext(ctx)
	for _, subject := range []string{subjectResultsOfTasks, prefixNotifyGroup + "*"} {
		sub, err := q.nc.Subscribe(subject, c.onNews)
		if err != nil {
			return fmt.Errorf("clerk: %w", err)
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	}
	c.groups.Go(func() error {
		q.persist(ctx, "wake_ups", func() error { return q.serveDue(ctx) })
		return nil
	})
	c.groups.Go(func() error {
		q.persist(ctx, "rounds", func() error { return c.serveRounds(ctx, groupCtx) })
		return nil
	})
	q.persist(ctx, "clerk", func() error { return c.serve(ctx, groupCtx) })
	return c.groups.Wait()
}

// persist begins a service again whenever it fails, until ctx ends.
func (q *Queue) persist(ctx context.Context, name string, serve func() error) {
	for ctx.Err() == nil {
		if err := serve(); err != nil && ctx.Err() == nil {
			q.log.Warn("service_interrupted", "service", name, "err", err)
		}
		_ = sleep(ctx, time.Second) // its only error is the end of ctx, which the loop sees
	}
}

func (q *Queue) clerkConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: consumerClerk, DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: min(clerkAckWait, q.opts.AckWait), MaxDeliver: -1, MaxAckPending: -1,
	}
}

// serve takes batches of jobs until ctx ends or the consumer fails.
func (c *clerk) serve(ctx, groupCtx context.Context) error {
	consumer, err := c.q.js.CreateConsumer(ctx, StreamJobs, c.q.clerkConfig())
	if errors.Is(err, jetstream.ErrConsumerExists) {
		consumer, err = c.q.js.Consumer(ctx, StreamJobs, consumerClerk)
	}
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(clerkBatch), jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return err
	}
	last, end := endWith(ctx, messages)
	defer end()
	arrived := make(chan jetstream.Msg, clerkBatch)
	failed := make(chan error, 1)
	go func() {
		defer close(arrived)
		for {
			m, err := messages.Next(jetstream.NextContext(last))
			if err != nil {
				failed <- err
				return
			}
			arrived <- m
		}
	}()
	for first := range arrived {
		c.handle(ctx, groupCtx, gather(first, arrived))
	}
	if err := <-failed; ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// endWith lets an iterator end with ctx: it hands out what it has in hand and is then closed. The returned context ends
// a second after ctx: a Next that waits under it is cut off where no broker confirms that this was all (what the
// iterator has then comes back after AckWait). The returned function ends it for good.
func endWith(ctx context.Context, m jetstream.MessagesContext) (last context.Context, end func()) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		m.Drain()
		time.AfterFunc(time.Second, cancel)
	})
	return last, func() {
		stop()
		m.Stop()
		cancel()
	}
}

// gather takes what has arrived already, up to a batch.
func gather(first jetstream.Msg, more <-chan jetstream.Msg) []jetstream.Msg {
	batch := []jetstream.Msg{first}
	for len(batch) < clerkBatch {
		select {
		case m, ok := <-more:
			if !ok {
				return batch
			}
			batch = append(batch, m)
		default:
			return batch
		}
	}
	return batch
}

// handle dispatches a batch: all lane messages are on their way before the first acknowledgement is awaited, in the
// order of the jobs. When the clerk is ending the batch goes back.
func (c *clerk) handle(ctx, groupCtx context.Context, batch []jetstream.Msg) {
	sent := make([]posting, 0, len(batch))
	for _, m := range batch {
		if ctx.Err() != nil {
			giveBack(m, 0)
			continue
		}
		p, err := c.take(ctx, groupCtx, m)
		switch {
		case err != nil:
			c.q.log.Warn("job_not_dispatched", "subject", m.Subject(), "err", err)
			giveBack(m, time.Second)
		case p != nil:
			sent = append(sent, *p)
		}
	}
	for _, p := range sent {
		c.settle(ctx, p)
	}
}

func giveBack(m jetstream.Msg, delay time.Duration) {
	if delay > 0 {
		_ = m.NakWithDelay(delay) // without it the message comes back after AckWait
		return
	}
	_ = m.Nak()
}

// posting is one lane message on its way.
type posting struct {
	from   jetstream.Msg
	msg    *nats.Msg
	future jetstream.PubAckFuture
}

// take deals with one message of the jobs stream. A posting is what is left to wait for; nil with nil: all done.
func (c *clerk) take(ctx, groupCtx context.Context, m jetstream.Msg) (*posting, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	number := meta.Sequence.Stream
	j, err := decodeJob(&stored{Subject: m.Subject(), Seq: number, Time: meta.Timestamp, Header: m.Headers(), Data: m.Data()})
	if err != nil {
		return nil, c.refuse(ctx, m, JobRef(number), ending{state: job.Dead, reason: "Garbage", text: err.Error()})
	}
	if first, err := c.firstOfKey(ctx, j, number); err != nil || first != number {
		if err != nil {
			return nil, err
		}
		return nil, c.refuse(ctx, m, JobRef(number), ending{
			state: job.Cancelled, reason: "Duplicate", text: fmt.Sprintf("job %d has the same idempotency key", first),
		})
	}
	if err := c.q.remind(ctx, j, number, nil); err != nil {
		return nil, err
	}
	rec, waits, err := c.q.enter(ctx, j, number)
	switch {
	case err != nil:
		return nil, err
	case waits && !j.IsGroup():
		return nil, m.Ack() // its record keeps it; what lets it go on puts it on a lane
	}
	if j.IsGroup() {
		c.q.jobs.put(number, j)
		c.keep(groupCtx, m, number, j)
		return nil, nil
	}
	if len(m.Data()) <= freshSize {
		c.q.fresh.put(number, j)
	}
	return c.post(ctx, m, c.q.parcelFor(j, JobRef(number), rec))
}

func (c *clerk) firstOfKey(ctx context.Context, j *job.Job, number uint64) (uint64, error) {
	if j.Spec.IdempotencyKey == "" {
		return number, nil
	}
	return c.q.rememberKey(ctx, *j, number)
}

// post sends a single job to its lane.
func (c *clerk) post(ctx context.Context, m jetstream.Msg, p parcel) (*posting, error) {
	if err := c.q.step("clerk:dispatch"); err != nil {
		return nil, err
	}
	msg, err := c.q.prepare(ctx, p)
	if errors.Is(err, ErrTooManyLanes) {
		return nil, c.refuse(ctx, m, p.msg.ref(), ending{state: job.Dead, reason: "TooManyLanes", text: err.Error()})
	}
	if err != nil {
		return nil, err
	}
	future, err := c.q.js.PublishMsgAsync(msg)
	if err != nil {
		return nil, err
	}
	return &posting{m, msg, future}, nil
}

// settle waits until the lane has the message and then acknowledges the job.
func (c *clerk) settle(ctx context.Context, p posting) {
	select {
	case <-p.future.Ok():
	case refused := <-p.future.Err():
		if _, err := c.q.publish(ctx, p.msg); err != nil { // the patient way
			c.q.log.Warn("job_not_dispatched", "subject", p.msg.Subject, "first", refused, "err", err)
			giveBack(p.from, time.Second)
			return
		}
	case <-ctx.Done():
		giveBack(p.from, 0)
		return
	}
	if c.q.step("clerk:ack") != nil {
		return
	}
	_ = p.from.Ack() // if it gets lost the job is dispatched again under the same id, which the lane drops
}

// refuse ends a job that will not be dispatched, with a result, and takes it off the clerk's list.
func (c *clerk) refuse(ctx context.Context, m jetstream.Msg, ref Ref, e ending) error {
	err := c.q.endUnclaimed(ctx, ref, e)
	if err != nil && !errors.Is(err, ErrFinal) && !errors.Is(err, errRunning) {
		return err
	}
	c.q.log.Warn("job_refused", "job", ref.String(), "reason", e.reason, "err", e.text)
	if err := c.q.step("clerk:ack"); err != nil {
		return err
	}
	return m.Ack()
}
