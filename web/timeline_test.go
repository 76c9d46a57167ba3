package web

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// A young fleet's picture begins with its first run, an old one's where it was asked to; a job that is retried does not
// take away what ran before.
func TestTimelineBeginsWhereSomethingDoes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	x := newIndex()
	if from, all, _ := x.timeline(time.Hour, now); from != now.Add(-time.Hour) || len(all) != 0 {
		t.Errorf("nothing yet: from %v, %v", from, all)
	}
	run := func(n uint64, queued, start, end time.Duration) {
		ended := now.Add(-end)
		x.seeJob(queue.JobView{Ref: queue.JobRef(n), Number: n, User: "ada", Project: "vision", QueuedAt: now.Add(-queued), Job: &job.Job{}})
		x.seeRecord(queue.JobRef(n), &job.Record{Number: n, State: job.Succeeded, QueuedAt: now.Add(-queued),
			Attempts: []job.Attempt{{Attempt: 1, Devices: []string{"GPU-1"}, StartedAt: now.Add(-start), EndedAt: &ended}}})
	}
	run(2, 3*time.Minute, 3*time.Minute, 2*time.Minute)
	run(1, 0, 4*time.Minute, 3*time.Minute) // retried just now
	if from, all, _ := x.timeline(time.Hour, now); from != now.Add(-4*time.Minute) || len(all) != 2 || all[0].User != "ada" || all[0].Project != "vision" {
		t.Errorf("young: from %v: %v", now.Sub(from), all)
	}
	if from, all, _ := x.timeline(150*time.Second, now); from != now.Add(-150*time.Second) || len(all) != 1 || all[0].Start != from {
		t.Errorf("closer: from %v: %v", now.Sub(from), all)
	}
	run(3, 48*time.Hour, 47*time.Hour, 46*time.Hour)
	if from, all, _ := x.timeline(time.Hour, now); from != now.Add(-time.Hour) || len(all) != 2 {
		t.Errorf("old: from %v: %v", now.Sub(from), all)
	}
	if from, all, _ := x.timeline(7*24*time.Hour, now); from != now.Add(-47*time.Hour) || len(all) != 2 || all[1].Jobs != 2 { // two short ones in a row are drawn as one
		t.Errorf("a week: from %v: %v", now.Sub(from), all)
	}
}

// Who held which GPU is read from what the broker keeps: another dashboard, or this one after a restart, draws the same.
func TestTimelineOutlivesTheDashboard(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	n := h.submit("kept", func(j *job.Job) { j.Requirements.GPUs = 1 })
	h.runOnce(n, "GPU-7")
	h.list("state=succeeded", func(total int, _ []row) bool { return total == 1 })
	read := func(h *house) (a timelineAnswer) {
		code, text := h.ask("GET", "/api/v1/timeline?minutes=10080", "")
		if err := json.Unmarshal([]byte(text), &a); err != nil || code != 200 {
			t.Fatalf("%d %v: %s", code, err, text)
		}
		return a
	}
	before := read(h)
	if len(before.Segments) != 1 || before.Segments[0].GPU != "GPU-7" || before.Segments[0].Name != "kept" {
		t.Fatalf("before: %+v", before.Segments)
	}
	second := h.another(t)
	after := read(second)
	if len(after.Segments) != 1 || after.Segments[0] != before.Segments[0] {
		t.Errorf("after a restart:\n%+v\nbefore:\n%+v", after.Segments, before.Segments)
	}
}

// another is a second dashboard of the same broker, as after a restart.
func (h *house) another(t *testing.T) *house {
	t.Helper()
	q, err := queue.Open(t.Context(), h.broker.Connect(), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Queue: q, Logger: slog.New(slog.DiscardHandler), Now: time.Now, By: "tester", Token: token})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		q.Close()
	})
	other := &house{t: t, broker: h.broker, q: q, s: s, url: "http://" + l.Addr().String()}
	other.await(s.Loaded())
	return other
}
