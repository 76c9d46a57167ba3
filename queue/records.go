package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/berthq/berth/job"
)

// records is the bucket of job records. Every write is a compare-and-set on the key's revision and carries an id of
// its own, so that a write whose answer got lost is recognised as ours when it is tried again.
type records struct{ q *Queue }

func (records) subject(key string) string { return "$KV." + BucketRecords + "." + key }

// get reads a record and its revision; nil where there is none (the revision is then what a create must expect).
func (r records) get(ctx context.Context, ref Ref) (*job.Record, uint64, error) {
	return r.read(ctx, ref, false)
}

func (r records) read(ctx context.Context, ref Ref, leader bool) (*job.Record, uint64, error) {
	s, err := r.q.getLast(ctx, "KV_"+BucketRecords, r.subject(ref.String()), leader)
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("record %s: %w", ref, err)
	}
	return decodeRecord(ref, s)
}

func decodeRecord(ref Ref, s *stored) (*job.Record, uint64, error) {
	if isMarker(s) {
		return nil, s.Seq, nil
	}
	var rec job.Record
	if err := json.Unmarshal(s.Data, &rec); err != nil {
		return nil, 0, fmt.Errorf("record %s is not readable: %w", ref, err)
	}
	return &rec, s.Seq, nil
}

// isMarker reports whether the message stands for a key that was deleted or has expired.
func isMarker(s *stored) bool {
	return s.Header.Get(headerKVOp) != "" || s.Header.Get(headerMarker) != "" || len(s.Data) == 0
}

// put writes rec if the key still has revision rev (0: does not exist). errConflict: it has not.
func (r records) put(ctx context.Context, ref Ref, rec *job.Record, rev uint64) error {
	return r.putWhile(ctx, ref, rec, rev, func() {})
}

// putWhile is put, and calls meanwhile once while it waits for the broker.
func (r records) putWhile(ctx context.Context, ref Ref, rec *job.Record, rev uint64, meanwhile func()) error {
	var ttl time.Duration
	if rec.State.Final() {
		ttl = keepRecord
	}
	body, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("record %s: %w", ref, err)
	}
	_, err = r.q.casKeyWhile(ctx, BucketRecords, ref.String(), body, rev, ttl, meanwhile)
	return err
}

// casKey writes one key of a bucket by compare-and-set, with a TTL if ttl is not 0.
func (q *Queue) casKey(ctx context.Context, bucket, key string, body []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return q.casKeyWhile(ctx, bucket, key, body, rev, ttl, func() {})
}

func (q *Queue) casKeyWhile(
	ctx context.Context, bucket, key string, body []byte, rev uint64, ttl time.Duration, meanwhile func(),
) (uint64, error) {
	m := newMsg("$KV."+bucket+"."+key, body)
	id := nuid.Next()
	m.Header.Set(headerMsgID, id)
	if ttl > 0 {
		m.Header.Set(headerTTL, strconv.Itoa(int(max(ttl, time.Second)/time.Second)))
	}
	ack, err := q.publishWhile(ctx, m, meanwhile, jetstream.WithExpectLastSequencePerSubject(rev))
	if err == nil {
		return ack.Sequence, nil
	}
	if !isWrongLast(err) {
		return 0, fmt.Errorf("write %s/%s: %w", bucket, key, err)
	}
	// The first try may have been stored and only its answer lost.
	last, getErr := q.getLast(ctx, "KV_"+bucket, m.Subject, true)
	if getErr == nil && last.Header.Get(headerMsgID) == id {
		return last.Seq, nil
	}
	return 0, fmt.Errorf("write %s/%s: %w", bucket, key, errConflict)
}

// change reads a record, lets edit change it, and writes it, again while others are faster or the broker is away.
// edit may return errNoChange to leave it as it is; its rec is nil where there is none, and it may return a new one.
//
// A write is fenced by the revision, a refusal is not: where the record has copies, the nearest may lag behind what this
// very process wrote a moment ago, and a claim would look lost to its own holder. So an edit that writes nothing is
// asked again with what the leader has.
func (r records) change(ctx context.Context, ref Ref, edit func(rec *job.Record) (*job.Record, error)) (*job.Record, error) {
	leader := false
	for {
		var rec *job.Record
		var rev uint64
		err := retry(ctx, func() (err error) {
			rec, rev, err = r.read(ctx, ref, leader)
			return err
		})
		if err != nil {
			return nil, err
		}
		next, err := edit(rec)
		if err != nil && !leader {
			leader = true
			continue
		}
		if errors.Is(err, errNoChange) {
			return rec, nil
		}
		if err != nil {
			return rec, err
		}
		err = r.put(ctx, ref, next, rev)
		if errors.Is(err, errConflict) {
			leader = true // the nearest copy may still show the old value
			continue
		}
		if err != nil {
			return nil, err
		}
		return next, nil
	}
}

// errNoChange is how an edit says that the record may stay as it is.
var errNoChange = errors.New("no change")
