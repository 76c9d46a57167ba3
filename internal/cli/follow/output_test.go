package follow_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli/follow"
	"github.com/berthq/berth/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func chunks(pieces ...queue.LogChunk) []queue.LogChunk { return pieces }

func out(text string) queue.LogChunk { return of("7", queue.Stdout, text) }

func of(job, stream, text string) queue.LogChunk {
	return queue.LogChunk{Job: job, Stream: stream, Data: []byte(text), At: time.Date(2026, 5, 1, 12, 0, 0, 5e6, time.UTC)}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		o              follow.Output
		in             []queue.LogChunk
		stdout, stderr string
	}{
		{"bytes unchanged", follow.Output{}, chunks(out("a\r\x00\xff"), of("7", queue.Stderr, "\x1b[1m"), out("b")), "a\r\x00\xffb", "\x1b[1m"},
		{"no bars in a pipe", follow.Output{}, chunks(out("::progress 1/2 half\n")), "::progress 1/2 half\n", ""},
		{"bars on a terminal", follow.Output{Bars: true}, chunks(out("a\n::progress 1/2 half\nx::progress 1/2\n::progress soon\n")),
			"a\n████████████············ 1/2 half\nx::progress 1/2\n::progress soon\n", ""},
		{"stamps where lines begin", follow.Output{Timestamps: true}, chunks(out("one\ntw"), out("o\n")),
			"2026-05-01T12:00:00.005Z one\n2026-05-01T12:00:00.005Z two\n", ""},
		{"tasks keep their lines apart", follow.Output{Tasks: true},
			chunks(of("7.1", queue.Stdout, "a"), of("7.2", queue.Stdout, "x\n"), of("7.1", queue.Stdout, "b\n")), "7.2 x\n7.1 ab\n", ""},
		{"a task's last words come too", follow.Output{Tasks: true},
			chunks(of("7.1", queue.Stdout, "a"), queue.LogChunk{Job: "7.1", End: true}), "7.1 a\n", ""},
		{"an end marker is nothing", follow.Output{Tasks: true}, chunks(queue.LogChunk{Job: "7", End: true}), "", ""},
	} {
		var stdout, stderr bytes.Buffer
		c.o.Stdout, c.o.Stderr = &stdout, &stderr
		for _, chunk := range c.in {
			if err := c.o.Chunk(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: stdout %q, stderr %q\nwant %q, %q", c.name, &stdout, &stderr, c.stdout, c.stderr)
		}
	}
}

// A nil writer drops its stream; EndLine closes an open line once.
func TestOutputDropsAndEnds(t *testing.T) {
	t.Parallel()
	var stdout, end bytes.Buffer
	o := follow.Output{Stdout: &stdout}
	for _, c := range chunks(of("7", queue.Stderr, "gone"), out("kept")) {
		if err := o.Chunk(c); err != nil {
			t.Fatal(err)
		}
	}
	o.EndLine(&end)
	if stdout.String() != "kept" || end.String() != "\n" {
		t.Errorf("stdout %q, end %q", &stdout, &end)
	}
	if err := o.Chunk(out("\n")); err != nil {
		t.Fatal(err)
	}
	end.Reset()
	if o.EndLine(&end); end.Len() > 0 {
		t.Errorf("a finished line was ended again: %q", &end)
	}
}

// A job's bytes go where the job sent them.
func ExampleOutput() {
	o := follow.Output{Stdout: os.Stdout, Timestamps: true}
	if err := o.Chunk(out("epoch 1\nepoch 2\n")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2026-05-01T12:00:00.005Z epoch 1
	// 2026-05-01T12:00:00.005Z epoch 2
}
