package spool

import (
	"encoding/binary"
	"time"
)

// Stream says where a frame's bytes come from.
type Stream uint8

// The streams of a run.
const (
	Stdout Stream = 1
	Stderr Stream = 2
	Notice Stream = 3 // Berth's own words: what was not kept, and why
)

// String is the stream's name on the wire.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "notice"
}

// MaxData is the most bytes one frame holds. A longer line goes on in the next frame.
const MaxData = 64 << 10

// Frame is whole lines that arrived together, or a piece of one (Partial) that was too long or kept people waiting.
type Frame struct {
	Offset  int64 // of the frame among all of the run's frames
	Stream  Stream
	Partial bool // the last line goes on in this stream's next frame
	At      time.Time
	Data    []byte
}

// headerSize bytes come before a frame's data: stream, flags, two fixed bytes to find a frame by, length, unix nanos.
const (
	headerSize  = 16
	flagPartial = 1
	mark0       = 0xBE
	mark1       = 0x47
)

func putHeader(b []byte, stream Stream, partial bool, length int, at time.Time) {
	b[0], b[1], b[2], b[3] = byte(stream), 0, mark0, mark1
	if partial {
		b[1] = flagPartial
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(length))
	binary.LittleEndian.PutUint64(b[8:], uint64(at.UnixNano()))
}

// header reads the frame header at the start of b; ok is false when none stands there.
func header(b []byte) (f Frame, length int, ok bool) {
	if len(b) < headerSize || b[2] != mark0 || b[3] != mark1 || b[0] < byte(Stdout) || b[0] > byte(Notice) {
		return Frame{}, 0, false
	}
	length = int(binary.LittleEndian.Uint32(b[4:]))
	if length > MaxData {
		return Frame{}, 0, false
	}
	at := time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:])))
	return Frame{Stream: Stream(b[0]), Partial: b[1]&flagPartial != 0, At: at}, length, true
}
