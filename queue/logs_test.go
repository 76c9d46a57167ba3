package queue

import (
	"strings"
	"testing"
	"time"
)

func (b *bundle) write(w *LogWriter, from int64, text string) {
	b.t.Helper()
	c := LogChunk{Stream: Stdout, Offset: from, Next: from + int64(len(text)), At: time.Now(), Data: []byte(text)}
	if err := w.Write(b.ctx, c); err != nil {
		b.t.Fatal(err)
	}
}

// A shipper that is killed and started again ships on where the log ends: nothing is lost, nothing comes twice, not
// even where the new one cuts its chunks differently.
func TestLogOfARestartedShipper(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("talks"))
	c := b.machine("m1").claim()

	got := make(chan string, 1)
	follower := b.open()
	go func() {
		var all strings.Builder
		for chunk, err := range follower.Logs(b.ctx, ref, LogOptions{Follow: true}) {
			if err != nil {
				t.Errorf("follow: %v", err)
			}
			all.Write(chunk.Data)
		}
		got <- all.String()
	}()

	first, err := b.q.LogWriter(b.ctx, "lab", ref, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.write(first, 0, "one ")
	b.write(first, 4, "two ")
	second, err := b.q.LogWriter(b.ctx, "lab", ref, 1)
	if err != nil || second.Next() != 8 {
		t.Fatalf("the second shipper begins at %d, %v", second.Next(), err)
	}
	b.write(second, 0, "one two ") // it reads its spool from the beginning
	b.write(second, 8, "three")
	b.write(first, 8, "thr") // the zombie is not dead yet
	if err := second.Close(b.ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	select {
	case all := <-got:
		if all != "one two three" {
			t.Errorf("followed: %q", all)
		}
	case <-time.After(patience):
		t.Fatal("the follower does not end with the job")
	}
	var all strings.Builder
	for chunk, err := range b.q.Logs(b.ctx, ref, LogOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		all.Write(chunk.Data)
	}
	if all.String() != "one two three" {
		t.Errorf("read later: %q", all.String())
	}
}

// Following the log of a job that never runs ends with the job.
func TestLogOfACancelledJob(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("silent"))
	ended := make(chan struct{})
	follower := b.open()
	go func() {
		defer close(ended)
		for _, err := range follower.Logs(b.ctx, ref, LogOptions{Follow: true}) {
			if err != nil {
				t.Errorf("follow: %v", err)
			}
		}
	}()
	if _, err := b.q.Cancel(b.ctx, ref, "ada", ""); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the follower waits for ever")
	}
}

func TestSeriesOfAnAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	for _, points := range [][]int{{1}, {1, 2, 3}} {
		if err := b.q.PublishSeries(b.ctx, "lab", TaskRef(7, 3), 1, points); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	if err := b.q.Series(b.ctx, "lab", TaskRef(7, 3), 1, &got); err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
}
