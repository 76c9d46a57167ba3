package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t testing.TB, limit int64) (*Writer, string) {
	t.Helper()
	dir := t.TempDir()
	w, err := Create(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	return w, dir
}

// all reads to the end of what can be read now.
func all(t testing.TB, r *Reader, ended bool) (frames []Frame) {
	t.Helper()
	for {
		f, err := r.Next(ended)
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Data = bytes.Clone(f.Data)
		frames = append(frames, f)
	}
}

func text(frames []Frame) string {
	var b strings.Builder
	for _, f := range frames {
		b.Write(f.Data)
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	w, dir := create(t, 0)
	at := time.Unix(1_700_000_000, 123456789)
	w.Append(Stdout, false, at, []byte("one\n"))
	w.Append(Stderr, true, at.Add(time.Nanosecond), []byte("two"))
	w.Append(Stdout, false, at, nil)
	w.Append(Stdout, false, at, bytes.Repeat([]byte{0}, MaxData))
	if kept, dropped, err := w.Close(); kept != int64(4+3+MaxData) || dropped != 0 || err != nil {
		t.Errorf("kept %d, dropped %d: %v", kept, dropped, err)
	}
	r := NewReader(dir, 0)
	defer r.Close()
	got := all(t, r, true)
	if len(got) != 4 {
		t.Fatalf("%d frames, want 4", len(got))
	}
	if f := got[1]; f.Stream != Stderr || !f.Partial || !f.At.Equal(at.Add(1)) || string(f.Data) != "two" || f.Offset != headerSize+4 {
		t.Errorf("second frame is %+v", f)
	}
	if len(got[2].Data) != 0 || len(got[3].Data) != MaxData {
		t.Errorf("sizes %d, %d", len(got[2].Data), len(got[3].Data))
	}
}

// A reader from any frame's offset on sees exactly the rest: nothing lost, nothing doubled.
func TestReadFromEveryOffset(t *testing.T) {
	t.Parallel()
	w, dir := create(t, 0)
	for i := range 100 {
		w.Append(Stream(1+i%2), i%3 == 0, time.Unix(int64(i), 0), []byte(strings.Repeat("x", i*7%900)+"\n"))
	}
	_, _, _ = w.Close()
	whole := NewReader(dir, 0)
	defer whole.Close()
	frames := all(t, whole, true)
	for i, f := range frames {
		r := NewReader(dir, f.Offset)
		if got := all(t, r, true); text(got) != text(frames[i:]) {
			t.Fatalf("from offset %d: %d frames, want %d", f.Offset, len(got), len(frames)-i)
		}
		r.Close()
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	w, dir := create(t, 0)
	r := NewReader(dir, 0)
	defer r.Close()
	if got := all(t, r, false); len(got) != 0 {
		t.Fatalf("%d frames of an empty spool", len(got))
	}
	for i := range 10 {
		w.Append(Stdout, false, time.Now(), fmt.Appendf(nil, "%d\n", i))
		if got := text(all(t, r, false)); got != fmt.Sprintf("%d\n", i) {
			t.Fatalf("after line %d a follower reads %q", i, got)
		}
	}
}

// The head is read as it comes; what is too much is kept in its last pieces and read at the end, with the cut said.
func TestCap(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	w, dir := create(t, limit)
	var written bytes.Buffer
	r := NewReader(dir, 0)
	defer r.Close()
	live := ""
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		line := fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("x", rng.IntN(4000)))
		written.Write(line)
		w.Append(Stdout, false, time.Now(), line)
		if i%50 == 0 {
			live += text(all(t, r, false))
		}
	}
	kept, dropped, err := w.Close()
	if err != nil || kept+dropped != int64(written.Len()) {
		t.Fatalf("kept %d + dropped %d is not %d (%v)", kept, dropped, written.Len(), err)
	}
	if strings.Contains(live, "[berth]") || !strings.HasPrefix(written.String(), live) || len(live) < limit/3 || len(live) > limit/2 {
		t.Errorf("while it grew %d bytes were read, want the head of about %d", len(live), limit/2)
	}
	rest := all(t, r, true)
	if rest[0].Stream != Notice || !strings.Contains(string(rest[0].Data), "not kept here: the output is larger than log_cap") {
		t.Errorf("the cut is not said: %q", rest[0].Data)
	}
	tail := text(rest[1:])
	if !strings.HasSuffix(written.String(), tail) || int64(len(live)+len(tail)) != kept || len(tail) < limit/4 {
		t.Errorf("tail of %d bytes, head of %d, kept %d", len(tail), len(live), kept)
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("%d files, want a head and two pieces of tail", len(files))
	}
	// A reader that comes after the end from the middle of what was cut.
	late := NewReader(dir, rest[0].Offset)
	defer late.Close()
	if got := all(t, late, true); text(got) != text(rest) {
		t.Error("a second reader sees another end")
	}
	if got, err := Tail(dir, 1000); err != nil || !strings.HasSuffix(written.String(), string(got)) || len(got) != 1000 {
		t.Errorf("tail: %d bytes (%v)", len(got), err)
	}
}

// After a full disk the log goes on, in a file of its own, and says what is missing.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w, dir := create(t, 0)
	w.Append(Stdout, false, time.Now(), []byte("before\n"))
	w.file.Close() // the next write fails
	w.Append(Stdout, false, time.Now(), []byte("lost\n"))
	w.Append(Stdout, false, time.Now(), []byte("after\n"))
	kept, dropped, err := w.Close()
	if kept != 13 || dropped != 5 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("kept %d, dropped %d, %v", kept, dropped, err)
	}
	r := NewReader(dir, 0)
	defer r.Close()
	got := all(t, r, false)
	if len(got) != 3 || got[1].Stream != Notice || !strings.Contains(string(got[1].Data), "disk was full") ||
		string(got[0].Data)+string(got[2].Data) != "before\nafter\n" {
		t.Errorf("read %q", text(got))
	}
}

// A writer that was killed in the middle of a frame leaves a log that ends before it.
func TestTorn(t *testing.T) {
	t.Parallel()
	w, dir := create(t, 0)
	w.Append(Stdout, false, time.Now(), []byte("whole\n"))
	w.Append(Stdout, false, time.Now(), []byte("never quite written\n"))
	_, _, _ = w.Close()
	path := filepath.Join(dir, fileName(headPrefix, 0))
	for cut := int64(1); cut < headerSize+20; cut++ {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-1); err != nil {
			t.Fatal(err)
		}
		r := NewReader(dir, 0)
		if got := text(all(t, r, true)); got != "whole\n" {
			t.Fatalf("%d bytes short it reads %q", cut, got)
		}
		r.Close()
		if got, err := Tail(dir, 100); err != nil || !strings.HasPrefix(string(got), "whole\n") {
			t.Fatalf("%d bytes short its tail is %q (%v)", cut, got, err)
		}
	}
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	w, dir := create(t, 0)
	w.Append(Stdout, false, time.Now(), []byte("fine\n"))
	_, _, _ = w.Close()
	path := filepath.Join(dir, fileName(headPrefix, 0))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 100)); err != nil { // what a power cut leaves
		t.Fatal(err)
	}
	r := NewReader(dir, 0)
	defer r.Close()
	if got, err := r.Next(true); err != nil || string(got.Data) != "fine\n" {
		t.Fatalf("first frame: %q, %v", got.Data, err)
	}
	if _, err := r.Next(true); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want %v and where", err, ErrCorrupt)
	}
}

// The tail is found from the end, also through data that looks like frames.
func TestTail(t *testing.T) {
	t.Parallel()
	w, dir := create(t, 0)
	var want bytes.Buffer
	fake := make([]byte, headerSize)
	putHeader(fake, Stdout, false, 3, time.Unix(0, 0))
	for i := range 3000 {
		data := append(fmt.Appendf(nil, "%d\n", i), fake...)
		want.Write(data)
		w.Append(Stream(1+i%2), false, time.Now(), data)
	}
	_, _, _ = w.Close()
	for _, n := range []int{1, 100, 4096, 64 << 10, 1 << 30} {
		got, err := Tail(dir, n)
		if err != nil {
			t.Fatal(err)
		}
		if expect := want.Bytes()[max(0, want.Len()-n):]; !bytes.Equal(got, expect) {
			t.Errorf("tail of %d: %d bytes, want %d", n, len(got), len(expect))
		}
	}
}

// Whatever lies in a spool file, reading it ends and never panics.
func FuzzReader(f *testing.F) {
	frame := make([]byte, headerSize+4)
	putHeader(frame, Stdout, true, 4, time.Unix(1, 2))
	f.Add(frame, uint8(0))
	f.Add(append(frame, frame[:9]...), uint8(20))
	f.Fuzz(func(t *testing.T, content []byte, offset uint8) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName(headPrefix, 0)), content, 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(dir, int64(offset))
		defer r.Close()
		for last := int64(-1); ; last = r.Offset() {
			if _, err := r.Next(true); err != nil {
				break
			}
			if r.Offset() <= last {
				t.Fatalf("offset went from %d to %d", last, r.Offset())
			}
		}
		if _, err := Tail(dir, 10); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	w, _ := create(b, 1<<30)
	data := bytes.Repeat([]byte{'x'}, 32<<10)
	b.SetBytes(int64(len(data)))
	now := time.Now()
	for range b.N {
		w.Append(Stdout, false, now, data)
	}
}

func ExampleReader() {
	dir, _ := os.MkdirTemp("", "spool")
	defer os.RemoveAll(dir)

	w, _ := Create(dir, DefaultCap)
	w.Append(Stdout, false, time.Now(), []byte("epoch 1\n"))
	w.Append(Stderr, false, time.Now(), []byte("warning: slow disk\n"))
	_, _, _ = w.Close()

	r := NewReader(dir, 0)
	defer r.Close()
	for {
		f, err := r.Next(true)
		if errors.Is(err, io.EOF) {
			break
		}
		fmt.Printf("%d %s %q\n", f.Offset, f.Stream, f.Data)
	}
	// Output:
	// 0 stdout "epoch 1\n"
	// 24 stderr "warning: slow disk\n"
}
