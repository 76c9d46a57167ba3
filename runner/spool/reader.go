package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// ErrCorrupt says that what lies at an offset is not a frame.
var ErrCorrupt = errors.New("the log spool is damaged")

// Reader yields a spool's frames in order, from any offset that was a frame's. It never waits: [Reader.Next] says
// when there is nothing yet. Not safe for concurrent use.
type Reader struct {
	dir    string
	offset int64

	file     *os.File
	seg      segment // of file
	complete bool    // file will not grow any more
	at       time.Time
	buf      *[]byte // on loan from buffers while there is something to read
	lo, hi   int     // of buf: read, not yet yielded
}

// readSize holds two of the largest frames, so that one read yields one at least.
const readSize = 2 * (headerSize + MaxData)

var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// NewReader reads the spool in a run's folder from offset on.
func NewReader(dir string, offset int64) *Reader { return &Reader{dir: dir, offset: offset} }

// Offset is where the next frame starts: where a reader that comes later has to begin.
func (r *Reader) Offset() int64 { return r.offset }

// Next returns the next frame, or io.EOF when there is none yet. ended says that the run is over and nothing will be
// added: only then the tail of a capped log is read. The data is valid until the next call.
func (r *Reader) Next(ended bool) (Frame, error) {
	for {
		if r.file == nil {
			if f, err := r.enter(ended); err != nil || f.Data != nil {
				return f, err
			}
		}
		f, err := r.decode()
		if !errors.Is(err, io.EOF) {
			return f, err
		}
		next, found, err := r.following(ended)
		if err != nil || !found {
			r.idle()
			return Frame{}, cmp.Or(err, io.EOF)
		}
		if !r.complete { // it may have grown between the read and the look at the folder
			r.complete = true
			continue
		}
		r.leave()
		switch {
		case next.base > r.offset:
			return r.gap(next), nil
		case next.base < r.offset:
			return Frame{}, fmt.Errorf("%w: %s starts before offset %d", ErrCorrupt, next.path, r.offset)
		}
	}
}

// Close frees what the reader holds.
func (r *Reader) Close() error {
	r.leave()
	r.idle()
	return nil
}

// enter opens the file the offset lies in. When that part was not kept it returns a notice instead and goes on behind
// the gap.
func (r *Reader) enter(ended bool) (Frame, error) {
	all, err := readable(r.dir, ended)
	if err != nil {
		return Frame{}, err
	}
	at := -1
	for i, s := range all {
		if s.base <= r.offset {
			at = i
		}
	}
	switch {
	case len(all) == 0:
		return Frame{}, io.EOF
	case at < 0:
		return r.gap(all[0]), nil
	}
	r.seg = all[at]
	r.file, err = os.Open(r.seg.path)
	if err != nil {
		return Frame{}, fmt.Errorf("open the log spool: %w", err)
	}
	return Frame{}, nil
}

// following is the file after the open one; that it exists means that the open one is complete.
func (r *Reader) following(ended bool) (segment, bool, error) {
	all, err := readable(r.dir, ended)
	if err != nil {
		return segment{}, false, err
	}
	for _, s := range all {
		if s.base > r.seg.base {
			return s, true, nil
		}
	}
	return segment{}, false, nil
}

// gap says what was not kept and goes on at the file behind it.
func (r *Reader) gap(next segment) Frame {
	reason := "the disk was full"
	if next.tail {
		reason = "the output is larger than log_cap"
	}
	text := fmt.Sprintf("[berth] %s of output not kept here: %s\n", size(next.base-r.offset), reason)
	f := Frame{Offset: r.offset, Stream: Notice, At: r.at, Data: []byte(text)}
	r.offset = next.base
	return f
}

// decode yields the next frame of the open file, or io.EOF at its end.
func (r *Reader) decode() (Frame, error) {
	for range 2 {
		if f, ok, err := r.take(); ok || err != nil {
			return f, err
		}
		if err := r.fill(); err != nil {
			return Frame{}, err
		}
	}
	return Frame{}, io.EOF // half a frame: its writer is not done, or died on it
}

func (r *Reader) take() (Frame, bool, error) {
	if r.hi-r.lo < headerSize {
		return Frame{}, false, nil
	}
	b := (*r.buf)[r.lo:r.hi]
	f, n, ok := header(b)
	if !ok {
		return Frame{}, false, fmt.Errorf("%w at offset %d in %s", ErrCorrupt, r.offset, r.seg.path)
	}
	if len(b) < headerSize+n {
		return Frame{}, false, nil
	}
	r.at = f.At
	f.Offset, f.Data = r.offset, b[headerSize:headerSize+n]
	r.lo += headerSize + n
	r.offset += int64(headerSize + n)
	return f, true, nil
}

// fill reads on from the offset. What is still in the buffer is read again: simpler than moving it, and rare.
func (r *Reader) fill() error {
	if r.buf == nil {
		r.buf = buffers.Get().(*[]byte)
	}
	n, err := r.file.ReadAt(*r.buf, r.offset-r.seg.base)
	r.lo, r.hi = 0, n
	if n > 0 || err == nil {
		return nil
	}
	if err == io.EOF {
		return io.EOF
	}
	return fmt.Errorf("read the log spool: %w", err)
}

func (r *Reader) leave() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
	r.complete, r.lo, r.hi = false, 0, 0
}

// idle gives the buffer back, so that hundreds of quiet runs cost nothing.
func (r *Reader) idle() {
	if r.buf != nil {
		buffers.Put(r.buf)
		r.buf, r.lo, r.hi = nil, 0, 0
	}
}

func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < 3; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %s", f, [...]string{"KiB", "MiB", "GiB", "TiB"}[i])
}
