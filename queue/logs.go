package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// The two streams of a run's output.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// LogChunk is a piece of a run's output.
type LogChunk struct {
	Job     string // number[.index]
	Attempt int
	Stream  string    // Stdout or Stderr
	Offset  int64     // where it begins in the run's output, in the shipper's count
	Next    int64     // where the next one begins
	At      time.Time // when it was written
	Data    []byte
	End     bool // nothing follows in this attempt; Data is empty
}

// LogWriter ships the output of one attempt. Offsets may be any count that grows with the output (bytes, or positions
// in the spool); they are what makes a chunk that is sent twice count once.
type LogWriter struct {
	q       *Queue
	ref     Ref
	attempt int
	subject string
	next    int64
	ended   bool
}

// LogWriter opens the log of an attempt where it was left: Next says from which offset on to ship.
func (q *Queue) LogWriter(ctx context.Context, project string, ref Ref, attempt int) (*LogWriter, error) {
	w := &LogWriter{q: q, ref: ref, attempt: attempt, subject: logSubject(project, ref, attempt)}
	var last *stored
	err := retry(ctx, func() (err error) {
		last, err = q.getLast(ctx, StreamLogs, w.subject, true)
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return w, nil
	case err != nil:
		return nil, fmt.Errorf("log of %s.%d: %w", ref, attempt, err)
	}
	c, err := decodeChunk(last.Subject, last.Header, last.Data)
	if err != nil {
		return nil, fmt.Errorf("log of %s.%d: %w", ref, attempt, err)
	}
	w.next, w.ended = c.Next, c.End
	return w, nil
}

// Next is the offset that the next chunk must begin at.
func (w *LogWriter) Next() int64 { return w.next }

// Write ships one chunk and returns when the broker has it; it is tried again until then or until ctx ends. A chunk
// that lies before Next has been shipped already and is skipped.
func (w *LogWriter) Write(ctx context.Context, c LogChunk) error {
	if w.ended || c.Next <= w.next {
		return nil
	}
	if err := w.store(ctx, c); err != nil {
		return err
	}
	w.next = c.Next
	return nil
}

// Close writes the end marker: readers that follow need wait for no more.
func (w *LogWriter) Close(ctx context.Context) error {
	if w.ended {
		return nil
	}
	if err := w.store(ctx, LogChunk{Offset: w.next, Next: w.next, At: w.q.now(), End: true}); err != nil {
		return err
	}
	w.ended = true
	return nil
}

func (w *LogWriter) store(ctx context.Context, c LogChunk) error {
	m := newMsg(w.subject, c.Data)
	id := w.ref.attemptToken(w.attempt) + "." + strconv.FormatInt(c.Offset, 10)
	if c.End {
		id += ".end"
		m.Header.Set(HeaderEnd, "1")
	} else {
		m.Header.Set(HeaderStream, c.Stream)
	}
	m.Header.Set(headerMsgID, id)
	m.Header.Set(HeaderOffset, strconv.FormatInt(c.Offset, 10))
	m.Header.Set(HeaderNext, strconv.FormatInt(c.Next, 10))
	m.Header.Set(HeaderTime, c.At.UTC().Format(time.RFC3339Nano))
	if _, err := w.q.publish(ctx, m); err != nil {
		return fmt.Errorf("ship log: %w", err)
	}
	return nil
}

func decodeChunk(subject string, h nats.Header, data []byte) (LogChunk, error) {
	ref, attempt, err := parseAttemptSubject(subject, prefixLogs)
	if err != nil {
		return LogChunk{}, err
	}
	c := LogChunk{Job: ref.String(), Attempt: attempt, Stream: h.Get(HeaderStream), Data: data, End: h.Get(HeaderEnd) != ""}
	if c.Offset, err = strconv.ParseInt(h.Get(HeaderOffset), 10, 64); err != nil {
		return LogChunk{}, fmt.Errorf("log message without an offset: %w", err)
	}
	if c.Next, err = strconv.ParseInt(h.Get(HeaderNext), 10, 64); err != nil {
		c.Next = c.Offset + int64(len(data)) // written by a client of another kind
	}
	if at, err := time.Parse(time.RFC3339Nano, h.Get(HeaderTime)); err == nil {
		c.At = at
	}
	return c, nil
}
