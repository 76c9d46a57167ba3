package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	tryTimeout = 3 * time.Second       // one try of a publish; elections take longer, so it is tried again
	pauseMin   = 50 * time.Millisecond // between tries
	pauseMax   = time.Second
)

// publish stores one message, tried again with the same header until the stream has acknowledged it, an error is for
// good, or ctx ends. A message without a Msg-Id may be stored twice.
func (q *Queue) publish(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		ack, err := q.js.PublishMsg(try, m, opts...)
		cancel()
		if err == nil {
			return ack, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("publish to %s: %w (last answer: %w)", m.Subject, context.Cause(ctx), err)
		}
		if !isTransient(err) {
			return nil, fmt.Errorf("publish to %s: %w", m.Subject, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("publish to %s: %w", m.Subject, err)
		}
	}
}

// publishWhile is publish, and calls meanwhile once the message is on its way.
func (q *Queue) publishWhile(ctx context.Context, m *nats.Msg, meanwhile func(), opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	sent, err := q.js.PublishMsgAsync(m, opts...)
	meanwhile()
	if err != nil {
		return q.publish(ctx, m, opts...)
	}
	timer := time.NewTimer(tryTimeout)
	defer timer.Stop()
	select {
	case ack := <-sent.Ok():
		return ack, nil
	case err := <-sent.Err():
		if !isTransient(err) {
			return nil, fmt.Errorf("publish to %s: %w", m.Subject, err)
		}
	case <-timer.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("publish to %s: %w", m.Subject, context.Cause(ctx))
	}
	return q.publish(ctx, m, opts...)
}

// retry asks again while the broker is away, until ctx ends.
func retry(ctx context.Context, ask func() error) error {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		err := ask()
		if err == nil || !isTransient(err) {
			return err
		}
		if sleep(ctx, pause) != nil {
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func newMsg(subject string, body []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{}, Data: body}
}

// stored is one message of a stream.
type stored struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

// getSeq reads the message of a job by its number: from the nearest copy, and where that does not have it from the leader, since
// a copy may lag. errors.Is(err, ErrNotFound) is the leader's word.
func (q *Queue) getSeq(ctx context.Context, seq uint64) (*stored, error) {
	return q.getMsg(ctx, StreamJobs, map[string]any{"seq": seq}, true)
}

// getLast reads the last message of a subject. leader: not from a copy that may lag.
func (q *Queue) getLast(ctx context.Context, stream, subject string, leader bool) (*stored, error) {
	return q.getMsg(ctx, stream, map[string]any{"last_by_subj": subject}, !leader)
}

func (q *Queue) getMsg(ctx context.Context, stream string, req map[string]any, direct bool) (*stored, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if direct {
		m, err := q.request(ctx, "$JS.API.DIRECT.GET."+stream, body)
		if err != nil {
			return nil, err
		}
		if m.Header.Get(headerStatus) == "" {
			return storedFromDirect(m)
		}
		if _, bySeq := req["seq"]; !bySeq {
			return nil, ErrNotFound
		}
	}
	m, err := q.request(ctx, "$JS.API.STREAM.MSG.GET."+stream, body)
	if err != nil {
		return nil, err
	}
	return storedFromAPI(m)
}

// request asks the broker once, within tryTimeout.
func (q *Queue) request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	try, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	m, err := q.nc.RequestWithContext(try, subject, body)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	}
	return m, nil
}

func storedFromDirect(m *nats.Msg) (*stored, error) {
	seq, err := strconv.ParseUint(m.Header.Get(headerSeq), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("an answer without a sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get(headerStamp))
	if err != nil {
		return nil, fmt.Errorf("an answer without a time: %w", err)
	}
	return &stored{Subject: m.Header.Get(headerSubject), Seq: seq, Time: at, Header: m.Header, Data: m.Data}, nil
}

func storedFromAPI(m *nats.Msg) (*stored, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, fmt.Errorf("an answer that is no JSON: %w", err)
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, ErrNotFound
		}
		return nil, answer.Error
	}
	if answer.Message == nil {
		return nil, errors.New("an answer without a message")
	}
	s := &stored{Subject: answer.Message.Subject, Seq: answer.Message.Seq, Time: answer.Message.Time, Data: answer.Message.Data}
	if len(answer.Message.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(answer.Message.Header)
		if err != nil {
			return nil, fmt.Errorf("an answer with a broken header: %w", err)
		}
		s.Header = h
	}
	return s, nil
}
