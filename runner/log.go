package runner

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/berthq/berth/runner/spool"
)

// Frame is a piece of a run's output.
type Frame = spool.Frame

// Stream says where a frame comes from.
type Stream = spool.Stream

// The streams of a run.
const (
	Stdout = spool.Stdout
	Stderr = spool.Stderr
	Notice = spool.Notice // Berth's own words about the output
)

// LogReader yields a run's output as it comes. Not safe for concurrent use.
type LogReader struct {
	h     *Handle
	spool *spool.Reader
	wake  <-chan struct{}
	stop  func()
}

// safetyNet is how often a reader looks by itself, in case no notification comes (a network file system).
const safetyNet = time.Second

// Log reads the output from an offset on: 0, or what a [LogReader.Offset] was, of this worker or an earlier one. Close
// the reader.
func (h *Handle) Log(offset int64) *LogReader {
	wake, stop := h.p.waker.watch(h.dir)
	return &LogReader{h: h, spool: spool.NewReader(h.dir, offset), wake: wake, stop: stop}
}

// Next returns the next frame, waiting for it, and io.EOF after the last one of a run that has ended. Its data is valid
// until the next call.
func (l *LogReader) Next(ctx context.Context) (Frame, error) {
	for {
		ended := l.ended()
		f, err := l.spool.Next(ended)
		if !errors.Is(err, io.EOF) || ended {
			return f, err
		}
		if err := l.wait(ctx); err != nil {
			return Frame{}, err
		}
	}
}

func (l *LogReader) ended() bool {
	select {
	case <-l.h.done:
		return true
	default:
		return false
	}
}

func (l *LogReader) wait(ctx context.Context) error {
	look := time.NewTimer(safetyNet)
	defer look.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.h.done:
	case <-l.wake:
	case <-look.C:
	}
	return nil
}

// Offset is where a reader that comes later has to begin, so that no frame is lost or doubled.
func (l *LogReader) Offset() int64 { return l.spool.Offset() }

// Close frees what the reader holds.
func (l *LogReader) Close() error {
	l.stop()
	return l.spool.Close()
}
