package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/job"
)

// Changes is what somebody hears who follows all jobs and machines: a dashboard. Each function is called by one
// goroutine at a time, different ones at once. What stands is told first, then what changes.
type Changes struct {
	Job     func(JobView)              // a job as it was submitted, without its record
	Record  func(Ref, *job.Record)     // of a job, group or task; nil: it is gone
	Event   func(Event)                // who did what, since From
	Point   func(data json.RawMessage) // one minute of a machine, since From
	Machine func(Machine)              // an announcement
	Gone    func(key string)           // a machine departed
	Caught  func(stream string)        // all that stood on this stream has been told
	From    time.Time
}

// Follow tells all changes until ctx ends (nil) or the broker fails. It costs the broker five consumers, however many
// look at what the caller makes of it. Calling it again tells everything again.
func (q *Queue) Follow(outer context.Context, c Changes) error {
	recent := func(subject string) jetstream.OrderedConsumerConfig {
		return jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &c.From}
	}
	all := jetstream.OrderedConsumerConfig{FilterSubjects: []string{prefixJobs + "*.*"}}
	last := jetstream.OrderedConsumerConfig{FilterSubjects: []string{q.records.subject(">")}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	g, ctx := errgroup.WithContext(outer)
	g.Go(func() error {
		return q.tell(ctx, StreamJobs, all, c.Caught, func(m jetstream.Msg) { q.tellJob(m, c.Job) })
	})
	g.Go(func() error {
		return q.tell(ctx, "KV_"+BucketRecords, last, c.Caught, func(m jetstream.Msg) { q.tellRecord(m, c.Record) })
	})
	g.Go(func() error {
		return q.tell(ctx, StreamEvents, recent(prefixEvents+">"), c.Caught, func(m jetstream.Msg) {
			var e Event
			if json.Unmarshal(m.Data(), &e) == nil {
				c.Event(e)
			}
		})
	})
	g.Go(func() error {
		return q.tell(ctx, StreamSeries, recent(prefixFleet+"*"), c.Caught, func(m jetstream.Msg) { c.Point(m.Data()) })
	})
	g.Go(func() error {
		if err := q.WatchMachines(ctx, c.Machine, c.Gone); err != nil || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("machines: %w", ErrClosed)
	})
	err := g.Wait()
	if outer.Err() != nil {
		return nil //nolint:nilerr // the caller wants no more
	}
	return err
}

// tell passes a stream on. What has no message says so at once.
func (q *Queue) tell(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig, caught func(string), pass func(jetstream.Msg)) error {
	consumer, err := q.js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", stream, streamError(err))
	}
	left := consumer.CachedInfo().NumPending
	if left == 0 {
		caught(stream)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("%s: %w", stream, err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return nil // the caller wants no more
		}
		if err != nil {
			return fmt.Errorf("%s: %w", stream, err)
		}
		pass(m)
		if left > 0 {
			if left--; left == 0 {
				caught(stream)
			}
		}
	}
}

func (q *Queue) tellJob(m jetstream.Msg, see func(JobView)) {
	meta, err := m.Metadata()
	if err != nil {
		return // no message of a stream
	}
	s := stored{Subject: m.Subject(), Seq: meta.Sequence.Stream, Data: m.Data(), Header: m.Headers(), Time: meta.Timestamp}
	j, err := decodeJob(&s)
	if err != nil {
		j = &job.Job{ID: s.Header.Get(headerMsgID), SubmittedAt: s.Time}
		j.Project, j.User, _ = parseJobSubject(s.Subject)
	}
	see(viewOf(j, JobRef(s.Seq), nil))
}

func (q *Queue) tellRecord(m jetstream.Msg, see func(Ref, *job.Record)) {
	ref, err := ParseRef(strings.TrimPrefix(m.Subject(), q.records.subject("")))
	if err != nil {
		return // not a record's key
	}
	if isMarker(&stored{Header: m.Headers(), Data: m.Data()}) {
		see(ref, nil)
		return
	}
	var rec job.Record
	if err := json.Unmarshal(m.Data(), &rec); err != nil {
		q.log.Warn("record_not_readable", "job", ref.String(), "err", err)
		return
	}
	see(ref, &rec)
}

// Subscriptions is how many subscriptions this process has at the broker now.
func (q *Queue) Subscriptions() int { return q.nc.NumSubscriptions() }
