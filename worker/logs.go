package worker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
)

const (
	// chunkBytes is the most output one log message carries.
	chunkBytes = 128 << 10
	// chunkSpan is the longest time one log message covers, so that the times people see are right.
	chunkSpan = 100 * time.Millisecond
)

// logShipping is the goroutine that carries a run's output from its spool to the log stream.
type logShipping struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// shipLog begins to carry the output, from where the log stream ends: after a restart of the worker no line is lost and
// none comes twice. A broker that is away only delays it: the spool keeps everything meanwhile.
func (w *Worker) shipLog(a *attempt) *logShipping {
	ctx, cancel := context.WithCancel(w.background)
	l := &logShipping{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for {
			err := w.ship(ctx, a)
			if err == nil || ctx.Err() != nil {
				return
			}
			a.log.Warn("log_not_shipped", "err", err)
			pause(ctx, time.Second)
		}
	}()
	return l
}

// stop leaves the rest to the next worker.
func (l *logShipping) stop() {
	l.cancel()
	<-l.done
}

// finish waits until everything is in the log stream.
func (l *logShipping) finish() {
	<-l.done
	l.cancel()
}

// ship carries frames until the run's last one, and marks the end.
func (w *Worker) ship(ctx context.Context, a *attempt) error {
	out, err := w.cfg.Queue.LogWriter(ctx, a.claim.Job.Project, a.claim.Ref(), a.claim.Attempt())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	frames, read := readFrames(ctx, a.handle, out.Next())
	defer func() { cancel(); <-read }()
	chunk := queue.LogChunk{}
	for {
		f, more, err := nextFrame(ctx, frames, len(chunk.Data) > 0)
		switch {
		case err != nil:
			return err
		case more && len(chunk.Data) > 0 && joins(chunk, f):
			chunk.Data, chunk.Next = append(chunk.Data, f.data...), f.next
			continue
		}
		if len(chunk.Data) > 0 {
			w.hear(a, chunk.Data)
			if err := out.Write(ctx, chunk); err != nil {
				return err
			}
			chunk = queue.LogChunk{}
		}
		switch {
		case f.end:
			return out.Close(ctx)
		case more:
			chunk = queue.LogChunk{Stream: f.stream, Offset: f.offset, Next: f.next, At: f.at, Data: f.data}
		}
	}
}

// frame is a copy of one frame of the spool, or the end of it.
type frame struct {
	stream       string
	offset, next int64
	at           time.Time
	data         []byte
	end          bool
	err          error
}

func joins(c queue.LogChunk, f frame) bool {
	return !f.end && c.Stream == f.stream && c.Next == f.offset && len(c.Data)+len(f.data) <= chunkBytes && f.at.Sub(c.At) <= chunkSpan
}

// nextFrame waits for a frame; with something in hand it does not wait: more is false when there is none now.
func nextFrame(ctx context.Context, frames <-chan frame, inHand bool) (f frame, more bool, err error) {
	if inHand {
		select {
		case f = <-frames:
			return f, true, f.err
		default:
			return frame{}, false, nil
		}
	}
	select {
	case f = <-frames:
		return f, true, f.err
	case <-ctx.Done():
		return frame{}, false, ctx.Err()
	}
}

// readFrames reads the spool ahead of the broker, a little. read is closed when the reader has ended.
func readFrames(ctx context.Context, h *runner.Handle, from int64) (frames <-chan frame, read <-chan struct{}) {
	out, done := make(chan frame, 64), make(chan struct{})
	go func() {
		defer close(done)
		in := h.Log(from)
		defer func() { _ = in.Close() }() // it was only read
		for {
			f, err := in.Next(ctx)
			next := frame{stream: streamName(f.Stream), offset: f.Offset, next: in.Offset(), at: f.At}
			switch {
			case errors.Is(err, io.EOF):
				next = frame{end: true}
			case err != nil:
				next = frame{err: err}
			default:
				next.data = append([]byte(nil), f.Data...)
			}
			select {
			case out <- next:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out, done
}

// streamName: what Berth itself has to say in a log (output was cut) stands among the errors.
func streamName(s runner.Stream) string {
	if s == runner.Stdout {
		return queue.Stdout
	}
	return queue.Stderr
}
