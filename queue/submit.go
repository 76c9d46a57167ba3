package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/berthq/berth/job"
)

// Receipt is what a submitter gets.
type Receipt struct {
	Number    uint64
	ID        string
	Duplicate bool // the idempotency key is known: number and id are of the job it named first
}

// Submit stores the job with one durable write, tried again under the same message id until the broker has acknowledged
// it or ctx ends. An empty ID, SubmittedAt or Version is filled in.
func (q *Queue) Submit(ctx context.Context, j job.Job) (Receipt, error) {
	if err := q.complete(&j); err != nil {
		return Receipt{}, err
	}
	if err := q.NameParents(ctx, &j); err != nil {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	body, err := json.Marshal(j)
	if err == nil {
		err = errors.Join(checkJob(&j, len(body)), j.Spec.CheckWhen(q.now()))
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	if limit := q.nc.MaxPayload(); limit > 0 && int64(len(body)) > limit-1024 {
		return Receipt{}, fmt.Errorf("%w: %d KiB, the broker takes %d KiB; a group with large parameters can be split, "+
			"or max_payload raised in the broker's settings", ErrTooLarge, len(body)>>10, limit>>10)
	}
	if known, err := q.knownKey(ctx, j); err != nil || known.Number != 0 {
		return known, err
	}
	m := newMsg(jobSubject(j.Project, j.User), body)
	m.Header.Set(headerMsgID, messageID(j))
	ack, err := q.publishJob(ctx, m, sureFor)
	if err != nil {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	if !ack.Duplicate || j.Spec.IdempotencyKey == "" {
		return Receipt{Number: ack.Sequence, ID: j.ID}, nil // a duplicate without a key is our own second try
	}
	return q.firstOfKey(ctx, ack.Sequence, j.ID)
}

func (q *Queue) complete(j *job.Job) error {
	if j.Version == 0 {
		j.Version = job.Version
	}
	if j.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		j.ID = id.String()
	}
	if j.SubmittedAt.IsZero() {
		j.SubmittedAt = q.now().UTC()
	}
	return nil
}

// messageID is the job's id, or of a job with an idempotency key the key's hash, so that the broker itself drops a
// second one that comes at the same time.
func messageID(j job.Job) string {
	if j.Spec.IdempotencyKey == "" {
		return j.ID
	}
	return "key." + keyHash(j)
}

func keyHash(j job.Job) string {
	sum := sha256.Sum256([]byte(j.Project + "\x00" + j.User + "\x00" + j.Spec.IdempotencyKey))
	return hex.EncodeToString(sum[:16])
}

func keyOf(j job.Job) string { return j.Project + "." + j.User + "." + keyHash(j) }

// keyValue is what an idempotency key stands for.
type keyValue struct {
	Number uint64 `json:"number"`
	ID     string `json:"id"`
}

// knownKey looks an idempotency key up; a zero Receipt means that it is new.
func (q *Queue) knownKey(ctx context.Context, j job.Job) (Receipt, error) {
	if j.Spec.IdempotencyKey == "" {
		return Receipt{}, nil
	}
	var s *stored
	err := retry(ctx, func() (err error) {
		s, err = q.getLast(ctx, "KV_"+BucketKeys, "$KV."+BucketKeys+"."+keyOf(j), false)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Receipt{}, nil
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("submit: idempotency key: %w", err)
	}
	var v keyValue
	if isMarker(s) || json.Unmarshal(s.Data, &v) != nil {
		return Receipt{}, nil //nolint:nilerr // err is nil here; a key that cannot be read is as good as none
	}
	return Receipt{Number: v.Number, ID: v.ID, Duplicate: true}, nil
}

// firstOfKey answers a duplicate that the broker itself found: the first job may be our own first try.
func (q *Queue) firstOfKey(ctx context.Context, number uint64, ours string) (Receipt, error) {
	first, err := q.Job(ctx, number)
	if err != nil {
		return Receipt{}, fmt.Errorf("submit: the job of this idempotency key: %w", err)
	}
	return Receipt{Number: number, ID: first.ID, Duplicate: first.ID != ours}, nil
}

// rememberKey keeps what an idempotency key stands for, longer than the broker remembers message ids. It is the clerk's
// duty: it sees every job, and producers may not write the bucket. The first number wins; first is it.
func (q *Queue) rememberKey(ctx context.Context, j job.Job, number uint64) (first uint64, err error) {
	body, err := json.Marshal(keyValue{Number: number, ID: j.ID})
	if err != nil {
		return 0, err
	}
	for {
		_, err = q.casKey(ctx, BucketKeys, keyOf(j), body, 0, keepKeys)
		if err == nil {
			return number, nil
		}
		if !errors.Is(err, errConflict) {
			return 0, err
		}
		s, err := q.getLast(ctx, "KV_"+BucketKeys, "$KV."+BucketKeys+"."+keyOf(j), true)
		if err != nil {
			return 0, err
		}
		var v keyValue
		if !isMarker(s) && json.Unmarshal(s.Data, &v) == nil {
			return v.Number, nil
		}
		if _, err = q.casKey(ctx, BucketKeys, keyOf(j), body, s.Seq, keepKeys); err == nil {
			return number, nil
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}
