package shim

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"github.com/berthq/berth/runner/redact"
	"github.com/berthq/berth/runner/spool"
)

// patience is how long the start of a line waits for its end before people get to see it.
const patience = 200 * time.Millisecond

// catcher turns what comes out of one pipe into frames: whole lines; pieces of lines that are too long or too slow.
type catcher struct {
	stream spool.Stream
	pipe   *os.File
	log    *spool.Writer
	clean  *redact.Redactor // nil: nothing is to be kept out

	raw    []byte // what was read, before the redactor
	buf    []byte
	n      int  // bytes in buf: the start of a line
	timing bool // a deadline is set on the pipe
}

// run ends at the end of the pipe: when every process that could write to it is gone, or when it was closed.
func (c *catcher) run() {
	c.buf = make([]byte, spool.MaxData)
	for {
		m, err := c.read()
		if m > 0 {
			c.take(c.n + m)
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.flush(c.n)
		default:
			if c.clean != nil {
				c.add(c.clean.End())
			}
			c.flush(c.n)
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				c.log.Append(spool.Notice, false, time.Now(), []byte("[berth] reading "+c.stream.String()+" failed: "+err.Error()+"\n"))
			}
			return
		}
		c.time()
	}
}

// read fills the buffer: straight from the pipe, or by way of the redactor.
func (c *catcher) read() (int, error) {
	if c.clean == nil {
		return c.pipe.Read(c.buf[c.n:])
	}
	if c.raw == nil {
		c.raw = make([]byte, spool.MaxData/2)
	}
	m, err := c.pipe.Read(c.raw)
	c.add(c.clean.Next(c.raw[:m]))
	return 0, err
}

// add takes bytes that did not come straight from the pipe.
func (c *catcher) add(p []byte) {
	for len(p) > 0 {
		m := copy(c.buf[c.n:], p)
		p = p[m:]
		c.take(c.n + m)
	}
}

// take stores the whole lines among the first end bytes and keeps the rest.
func (c *catcher) take(end int) {
	if cut := bytes.LastIndexByte(c.buf[:end], '\n') + 1; cut > 0 {
		c.log.Append(c.stream, false, time.Now(), c.buf[:cut])
		end = copy(c.buf, c.buf[cut:end])
		c.untime()
	}
	c.n = end
	if c.n == len(c.buf) {
		c.flush(c.piece())
	}
}

// piece is how much of a line that is too long goes out: up to the last carriage return, so that a progress bar is
// not cut in the middle of a step, or all of it.
func (c *catcher) piece() int {
	if cut := bytes.LastIndexByte(c.buf[:c.n], '\r') + 1; cut > 1 {
		return cut
	}
	return c.n
}

// flush stores the first n bytes as a piece of a line.
func (c *catcher) flush(n int) {
	if n > 0 {
		c.log.Append(c.stream, true, time.Now(), c.buf[:n])
		c.n = copy(c.buf, c.buf[n:c.n])
	}
	c.untime()
}

// time gives a line that has begun its moment to end.
func (c *catcher) time() {
	if c.n > 0 && !c.timing {
		c.timing = c.pipe.SetReadDeadline(time.Now().Add(patience)) == nil
	}
}

func (c *catcher) untime() {
	if c.timing {
		c.timing = c.pipe.SetReadDeadline(time.Time{}) != nil
	}
}
