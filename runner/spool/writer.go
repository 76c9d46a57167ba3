package spool

import (
	"os"
	"sync"
	"time"
)

// DefaultCap is what is kept of one run's output when nothing else is asked for.
const DefaultCap = 1 << 30

// minCap keeps a tail of two full frames even under an absurdly small cap.
const minCap = 8 * (MaxData + headerSize)

// Writer appends a run's frames. It keeps the head and the tail of what exceeds its cap, and goes on counting while
// the disk is full: the program that writes is never stopped by its log. Safe for concurrent use.
type Writer struct {
	dir      string
	headCap  int64
	pieceCap int64 // of one piece of the tail; the last two are kept

	mu       sync.Mutex
	file     *os.File // nil: the next frame starts a new file
	fileSize int64
	headSize int64
	inTail   bool
	pieces   []piece // finished ones of the tail, oldest first
	offset   int64   // of the next frame
	fileData int64   // of the program's bytes, in the open file
	kept     int64   // likewise, in all files
	dropped  int64   // likewise, in no file any more, or never
	fault    error   // the first trouble with the disk
	scratch  [headerSize + MaxData]byte
}

type piece struct {
	path string
	data int64 // the program's bytes in it
}

// Create opens the spool of a run in its folder. limit is how much is kept; 0 means [DefaultCap].
func Create(dir string, limit int64) (*Writer, error) {
	w := &Writer{dir: dir}
	w.SetCap(limit)
	return w, w.open()
}

// SetCap changes how much is kept. Call it before the first Append.
func (w *Writer) SetCap(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if limit <= 0 {
		limit = DefaultCap
	}
	limit = max(limit, minCap)
	w.headCap, w.pieceCap = limit/2, limit/4
}

// Append stores data, at most [MaxData] bytes, as one frame. It reports nothing: what could not be stored is counted,
// and told by Close.
func (w *Writer) Append(stream Stream, partial bool, at time.Time, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := copy(w.scratch[headerSize:], data)
	putHeader(w.scratch[:], stream, partial, n, at)
	frame := w.scratch[:headerSize+n]
	w.turn(int64(len(frame)))
	if err := w.write(frame); err != nil {
		w.dropped += int64(n)
		w.note(err)
	}
	w.offset += int64(len(frame))
}

// Close ends the spool: how many of the program's bytes are kept, how many are not, and the first trouble with the
// disk.
func (w *Writer) Close() (kept, dropped int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish()
	return w.kept, w.dropped, w.fault
}

// turn ends the open file when n more bytes do not fit it.
func (w *Writer) turn(n int64) {
	if !w.inTail && w.headSize+n > w.headCap {
		w.finish()
		w.inTail = true
	}
	if w.inTail && w.fileSize+n > w.pieceCap {
		w.finish()
	}
}

// write appends one whole frame or, when the disk will not have it, nothing of it.
func (w *Writer) write(frame []byte) error {
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	_, err := w.file.Write(frame)
	if err != nil {
		w.note(w.file.Truncate(w.fileSize))
		w.finish() // what comes after the gap has another base
		return err
	}
	w.fileSize += int64(len(frame))
	w.fileData += int64(len(frame) - headerSize)
	w.kept += int64(len(frame) - headerSize)
	if !w.inTail {
		w.headSize += int64(len(frame))
	}
	return nil
}

// open starts the file whose first frame is the next one. A new piece of the tail pushes the oldest out.
func (w *Writer) open() error {
	prefix := headPrefix
	if w.inTail {
		prefix = tailPrefix
	}
	for len(w.pieces) > 1 {
		w.note(os.Remove(w.pieces[0].path))
		w.dropped += w.pieces[0].data
		w.kept -= w.pieces[0].data
		w.pieces = w.pieces[1:]
	}
	f, err := os.OpenFile(w.dir+"/"+fileName(prefix, w.offset), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w.file, w.fileSize, w.fileData = f, 0, 0
	return nil
}

// finish closes the open file and remembers it when it is a piece of the tail.
func (w *Writer) finish() {
	if w.file == nil {
		return
	}
	if w.inTail {
		w.pieces = append(w.pieces, piece{w.file.Name(), w.fileData})
	}
	w.note(w.file.Close())
	w.file, w.fileSize, w.fileData = nil, 0, 0
}

func (w *Writer) note(err error) {
	if w.fault == nil {
		w.fault = err
	}
}
