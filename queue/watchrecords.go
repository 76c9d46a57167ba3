package queue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// WatchRecords tells the record of a job or task, of a group those of its tasks too, as they stand and as they change,
// until ctx ends. What was lost with a connection is told again. The broker keeps one consumer for it, and nobody asks
// again and again.
func (q *Queue) WatchRecords(ctx context.Context, ref Ref, see func(Ref, *job.Record)) {
	subjects := []string{q.records.subject(ref.String())}
	if !ref.Task {
		subjects = append(subjects, q.records.subject(ref.String()+".*"))
	}
	last := jetstream.OrderedConsumerConfig{FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	for ctx.Err() == nil {
		err := q.tell(ctx, "KV_"+BucketRecords, last, func(string) {}, func(m jetstream.Msg) { q.tellRecord(m, see) })
		if err == nil {
			return
		}
		q.log.Debug("records_watched_again", "job", ref.String(), "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}
