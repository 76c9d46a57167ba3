package follow

import (
	"fmt"
	"io"
	"time"

	"github.com/berthq/berth/queue"
)

// Output copies a job's log to two writers.
type Output struct {
	Stdout, Stderr io.Writer // nil drops that stream
	Timestamps     bool      // each line begins with when it was written, RFC 3339
	Tasks          bool      // each line begins with the task it is of

	open map[string]bool // per job and stream: the last byte written was no newline
}

// Chunk writes one piece.
func (o *Output) Chunk(c queue.LogChunk) error {
	w := o.Stdout
	if c.Stream == queue.Stderr {
		w = o.Stderr
	}
	if w == nil || len(c.Data) == 0 {
		return nil
	}
	if o.open == nil {
		o.open = map[string]bool{}
	}
	data, from := c.Data, c.Job+" "+c.Stream
	if prefix := o.prefix(c); prefix != "" {
		data = prefixed(data, prefix, o.open[from])
	}
	o.open[from] = data[len(data)-1] != '\n'
	_, err := w.Write(data)
	return err
}

func (o *Output) prefix(c queue.LogChunk) string {
	s := ""
	if o.Timestamps {
		s = c.At.UTC().Format(time.RFC3339Nano) + " "
	}
	if o.Tasks {
		s += c.Job + " "
	}
	return s
}

// prefixed puts prefix in front of every line that begins in data.
func prefixed(data []byte, prefix string, open bool) []byte {
	out := make([]byte, 0, len(data)+4*len(prefix))
	for _, b := range data {
		if !open {
			out = append(out, prefix...)
		}
		out = append(out, b)
		open = b != '\n'
	}
	return out
}

// EndLine finishes a line the job left open on a terminal, so that what Berth says next has a line of its own.
func (o *Output) EndLine(w io.Writer) {
	for _, open := range o.open {
		if open {
			fmt.Fprintln(w)
			return
		}
	}
}
