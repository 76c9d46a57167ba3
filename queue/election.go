package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	// reignTTL is how long a duty stays with a process that has fallen silent.
	reignTTL = 15 * time.Second

	// reignRenew is how often the one who has the duty says so.
	reignRenew = 4 * time.Second
)

// reign is what the key of a duty holds, for people who look.
type reign struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
}

// elect lets one process of the fleet at a time do a duty, for as long as it renews its key by compare-and-set. There
// may be none for up to reignTTL after one has died, and two for a moment when one was cut off: a duty must be harmless
// when done twice. That is what epochs, revisions and expected sequences are for; election only spares work.
func (q *Queue) elect(ctx context.Context, duty, holder string, do func(ctx context.Context)) error {
	value, err := json.Marshal(reign{Holder: holder, Since: q.now().UTC()})
	if err != nil {
		return fmt.Errorf("%s: %w", duty, err)
	}
	key := "elect." + duty
	for ctx.Err() == nil {
		if rev, err := q.seize(ctx, key, value); err == nil {
			q.log.Info("duty_taken", "duty", duty, "holder", holder)
			q.reignOver(ctx, key, value, rev, do)
		} else if !errors.Is(err, errConflict) && ctx.Err() == nil {
			q.log.Debug("duty_not_taken", "duty", duty, "err", err)
		}
		_ = sleep(ctx, reignRenew) // its only error is the end of ctx, which the loop sees
	}
	return nil
}

// seize writes the key if nobody has it.
func (q *Queue) seize(ctx context.Context, key string, value []byte) (uint64, error) {
	s, err := q.getLast(ctx, "KV_"+BucketKeys, "$KV."+BucketKeys+"."+key, true)
	var rev uint64
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return 0, err
	case !isMarker(s):
		return 0, errConflict
	default:
		rev = s.Seq
	}
	return q.casKey(ctx, BucketKeys, key, value, rev, reignTTL)
}

// reignOver does the duty until ctx ends or the key is lost, and waits for its end.
func (q *Queue) reignOver(ctx context.Context, key string, value []byte, rev uint64, do func(ctx context.Context)) {
	duty, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do(duty)
	}()
	defer func() { cancel(); <-ended }()
	until := time.Now().Add(reignTTL)
	for {
		select {
		case <-ended:
			return
		default:
		}
		if sleep(duty, reignRenew) != nil {
			q.abdicate(ctx, key, rev)
			return
		}
		try, stop := context.WithDeadline(duty, until)
		sent := time.Now()
		next, err := q.casKey(try, BucketKeys, key, value, rev, reignTTL)
		stop()
		if err != nil {
			q.log.Info("duty_lost", "key", key, "err", err)
			return
		}
		rev, until = next, sent.Add(reignTTL)
	}
}

// abdicate frees the key at once, so that the next one need not wait for its TTL.
func (q *Queue) abdicate(ctx context.Context, key string, rev uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := q.deleteKey(ctx, BucketKeys, key, rev); err != nil {
		q.log.Debug("duty_not_handed_on", "key", key, "err", err) // it runs out
	}
}
