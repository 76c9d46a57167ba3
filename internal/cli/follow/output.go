package follow

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// Output copies a job's log to two writers.
type Output struct {
	Stdout, Stderr io.Writer // nil drops that stream
	Timestamps     bool      // each line begins with when it was written, RFC 3339
	Tasks          bool      // each line begins with the task it is of, and comes whole
	Bars           bool      // on a terminal: lines that say how far the job is are drawn

	open map[string]bool   // per job and stream: the last byte written was no newline
	held map[string][]byte // likewise, with Tasks: the line that is not whole yet
	foot *screen.Line      // stays under what is written; nil: there is none
	seen map[string]bool   // per stream: a terminal
	cut  bool              // what is on the terminal does not end its line
}

// Chunk writes one piece.
func (o *Output) Chunk(c queue.LogChunk) error {
	if o.open == nil {
		o.open, o.held = map[string]bool{}, map[string][]byte{}
	}
	if c.End {
		return o.end(c)
	}
	w := o.writer(c.Stream)
	if w == nil || len(c.Data) == 0 {
		return nil
	}
	data, from := c.Data, c.Job+" "+c.Stream
	if o.Tasks {
		data = o.whole(from, data)
	}
	if len(data) == 0 {
		return nil
	}
	if o.Bars {
		data = drawn(data, o.open[from])
	}
	if prefix := o.prefix(c); prefix != "" {
		data = prefixed(data, prefix, o.open[from])
	}
	o.open[from] = data[len(data)-1] != '\n'
	return o.write(c.Stream, data)
}

// Above keeps a line at the foot of the terminal under what is written, whichever of the writers is one.
func (o *Output) Above(line *screen.Line, getenv func(string) string) {
	o.foot, o.seen = line, map[string]bool{}
	for _, stream := range []string{queue.Stdout, queue.Stderr} {
		o.seen[stream] = screen.Inspect(o.writer(stream), getenv).TTY
	}
}

// write passes bytes on unchanged; where a person sees them, above the foot.
func (o *Output) write(stream string, data []byte) error {
	w := o.writer(stream)
	if o.foot == nil {
		_, err := w.Write(data)
		return err
	}
	return o.foot.Over(func() (whole bool, err error) {
		_, err = w.Write(data)
		if o.seen[stream] {
			o.cut = data[len(data)-1] != '\n'
		}
		return !o.cut, err
	})
}

func (o *Output) writer(stream string) io.Writer {
	if stream == queue.Stderr {
		return o.Stderr
	}
	return o.Stdout
}

// whole holds back the line that has not ended: another task's would go through the middle of it. A line longer than
// any person reads is let go in parts.
func (o *Output) whole(from string, data []byte) []byte {
	const longest = 64 << 10
	all := slices.Concat(o.held[from], data)
	end := bytes.LastIndexByte(all, '\n') + 1
	if len(all)-end > longest {
		end = len(all)
	}
	o.held[from] = bytes.Clone(all[end:])
	return all[:end]
}

// end writes what a task left of a line.
func (o *Output) end(c queue.LogChunk) error {
	for _, stream := range []string{queue.Stdout, queue.Stderr} {
		from := c.Job + " " + stream
		rest, w := o.held[from], o.writer(stream)
		delete(o.held, from)
		if len(rest) == 0 || w == nil {
			continue
		}
		if err := o.write(stream, append(prefixed(rest, o.prefix(c), o.open[from]), '\n')); err != nil {
			return err
		}
		o.open[from] = false
	}
	return nil
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

// drawn replaces whole lines of progress by bars; open says that data goes on with a line that has begun.
func drawn(data []byte, open bool) []byte {
	if !bytes.Contains(data, []byte(job.ProgressMark)) {
		return data
	}
	var out []byte
	for line := range bytes.Lines(data) {
		p, ok := job.ParseProgress(string(line))
		if !ok || open || !bytes.HasPrefix(line, []byte(job.ProgressMark)) || line[len(line)-1] != '\n' {
			out = append(out, line...)
		} else {
			out = fmt.Appendf(out, "%s %s %s\n", screen.Bar(p.Share(), barWidth), p.Figures(), p.Text)
		}
		open = false
	}
	return out
}

const barWidth = 24

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
