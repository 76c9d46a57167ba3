package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// scanBatch is how many messages one request of a scan reads.
const scanBatch = 512

// laneScan is what the lanes hold at one moment.
type laneScan struct {
	fresh  numbers                       // jobs without tasks whose message of the first epoch waits
	epochs map[Ref]int                   // the highest epoch of each other one, on a lane or on the schedule
	lanes  map[job.Lane]job.Requirements // of one message of each lane that has any
}

// has reports whether the job's message of that epoch, or a later one, is there.
func (s laneScan) has(ref Ref, epoch int) bool {
	return s.epochs[ref] >= epoch || epoch <= 1 && !ref.Task && s.fresh.has(ref.Number)
}

// scanLanes reads everything that waits, a batch at a time, without taking any of it.
func (q *Queue) scanLanes(ctx context.Context) (laneScan, error) {
	s := laneScan{fresh: numbers{}, epochs: map[Ref]int{}, lanes: map[job.Lane]job.Requirements{}}
	for _, filter := range []string{prefixLanes + ">", prefixSched + ">"} {
		err := q.scan(ctx, StreamLanes, filter, 1, 0, func(m stored) error {
			s.note(m)
			return nil
		})
		if err != nil {
			return s, fmt.Errorf("scan the lanes: %w", err)
		}
	}
	return s, nil
}

// note takes a message down: by its id where it has one of ours, since reading a million bodies takes its time.
func (s laneScan) note(m stored) {
	subject := m.Subject
	if strings.HasPrefix(subject, prefixSched) {
		subject = m.Header.Get(headerTarget)
	}
	lane, ok := parseLaneSubject(subject)
	_, known := s.lanes[lane]
	ref, epoch, named := parseDispatchID(m.Header.Get(headerMsgID))
	if !named || ok && !known {
		msg, err := decodeLaneMessage(m.Data)
		if err != nil {
			return // whoever pulls it deals with it
		}
		ref, epoch = msg.ref(), msg.Epoch
		if ok {
			s.lanes[lane] = msg.Requirements
		}
	}
	if epoch == 1 && !ref.Task {
		s.fresh.add(ref.Number)
		return
	}
	s.epochs[ref] = max(s.epochs[ref], epoch)
}

// scan reads the messages of a filter from a sequence on, up to and with last (0: to the end).
func (q *Queue) scan(ctx context.Context, stream, filter string, from, last uint64, see func(stored) error) error {
	for {
		batch, err := q.batch(ctx, stream, map[string]any{"seq": from, "batch": scanBatch, "next_by_subj": filter})
		if err != nil {
			return err
		}
		for _, m := range batch {
			if last > 0 && m.Seq > last {
				return nil
			}
			if err := see(m); err != nil {
				return err
			}
			from = m.Seq + 1
		}
		if len(batch) < scanBatch {
			return nil
		}
	}
}

// deleteKey takes a key away if it still has that revision.
func (q *Queue) deleteKey(ctx context.Context, bucket, key string, rev uint64) error {
	m := newMsg("$KV."+bucket+"."+key, nil)
	m.Header.Set(headerKVOp, "DEL")
	m.Header.Set(headerTTL, "60") // the marker need not stay
	_, err := q.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(rev))
	if isWrongLast(err) {
		return fmt.Errorf("delete %s/%s: %w", bucket, key, errConflict)
	}
	return err
}
