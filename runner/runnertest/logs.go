package runnertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/berthq/berth/runner"
)

func testLog(t *testing.T, s suite) {
	b := s.setup(t)
	h := b.start(b.run("print=to stdout", "err=to stderr", "raw=no newline"))
	log := b.follow(h, 0)
	got := map[runner.Stream]string{}
	for {
		offset := log.Offset()
		f, err := log.Next(b.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		b.check(err)
		if f.Offset != offset || f.At.Before(h.StartedAt()) {
			t.Errorf("frame at %d of %v, expected at %d after %v", f.Offset, f.At, offset, h.StartedAt())
		}
		got[f.Stream] += string(f.Data)
	}
	if got[runner.Stdout] != "to stdout\nno newline" || got[runner.Stderr] != "to stderr\n" {
		t.Errorf("got %q", got)
	}
	exit := b.wait(h)
	if want := int64(len("to stdout\nno newlineto stderr\n")); exit.LogBytes != want || exit.LogDropped != 0 {
		t.Errorf("%d bytes, %d dropped; want %d, 0", exit.LogBytes, exit.LogDropped, want)
	}
	if _, err := log.Next(b.ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v, want io.EOF again", err)
	}
}

func testLogCap(t *testing.T, s suite) {
	b := s.setup(t)
	const lines, limit = 200_000, 1 << 20
	run := b.run(fmt.Sprint("lines=", lines))
	run.LogCap = limit
	h := b.start(run)
	text := b.text(h)
	exit := b.wait(h)
	full := int64(0)
	for i := range lines {
		full += int64(len(fmt.Sprintf("line %d\n", i+1)))
	}
	if exit.LogBytes != full || exit.LogDropped == 0 || exit.LogBytes-exit.LogDropped > limit {
		t.Errorf("%d bytes, %d dropped; want %d in all and at most %d kept", exit.LogBytes, exit.LogDropped, full, limit)
	}
	head, rest, found := strings.Cut(text, "[berth] ")
	notice, tail, _ := strings.Cut(rest, "\n")
	if !found || !strings.Contains(notice, "not kept here") || !strings.Contains(notice, "log_cap") || strings.Contains(tail, "[berth]") {
		t.Fatalf("the cut is not said once: %.200q", rest)
	}
	if !strings.HasPrefix(head, "line 1\nline 2\n") || !strings.HasSuffix(tail, fmt.Sprintf("line %d\n", lines)) {
		t.Errorf("head %.40q, tail %.40q", head, tail[len(tail)-40:])
	}
	if kept := int64(len(head) + len(tail)); kept != exit.LogBytes-exit.LogDropped || kept < limit/2 {
		t.Errorf("read %d bytes, said to be kept %d", kept, exit.LogBytes-exit.LogDropped)
	}
	if want := fmt.Sprintf("line %d\n", lines); !bytes.HasSuffix(exit.Tail, []byte(want)) || len(exit.Tail) != 64<<10 {
		t.Errorf("tail of %d bytes ends with %q", len(exit.Tail), exit.Tail[len(exit.Tail)-20:])
	}
}

func testLogLongLine(t *testing.T, s suite) {
	b := s.setup(t)
	const size = 3 << 20
	h := b.start(b.run(fmt.Sprint("long=", size), "print=after"))
	log := b.follow(h, 0)
	total, pieces := 0, 0
	for {
		f, err := log.Next(b.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		b.check(err)
		if len(f.Data) > 64<<10 {
			t.Fatalf("a frame of %d bytes", len(f.Data))
		}
		if f.Partial {
			pieces++
		}
		total += len(f.Data)
	}
	b.wait(h)
	if want := size + 1 + len("after\n"); total != want || pieces < size>>16 {
		t.Errorf("%d bytes in %d pieces, want %d in at least %d", total, pieces, want, size>>16)
	}
}

func testLogPartial(t *testing.T, s suite) {
	b := s.setup(t)
	h := b.start(b.run("raw=half a line", "wait="+b.dir+"/go", "print= and the rest"))
	log := b.follow(h, 0)
	f, err := log.Next(b.ctx) // comes while the line is not finished, or never
	b.check(err)
	if string(f.Data) != "half a line" || !f.Partial {
		t.Errorf("got %q (partial %v)", f.Data, f.Partial)
	}
	file(b.dir, "go", "", 0o644)
	f, err = log.Next(b.ctx)
	b.check(err)
	if string(f.Data) != " and the rest\n" || f.Partial {
		t.Errorf("got %q (partial %v)", f.Data, f.Partial)
	}
	b.wait(h)
}
