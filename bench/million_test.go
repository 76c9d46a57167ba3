package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// How many jobs wait in full size, and what is measured beside them.
const (
	million     = 1_000_000
	backlogSync = 2 * time.Minute // of the broker, on both sides
	backlogRuns = 100             // dispatches timed, with and without a backlog
	backlogs    = 20              // lanes it waits on
)

// backlogFigures is what many waiting jobs cost.
type backlogFigures struct {
	perSecond        float64 // from the first publish until all wait on lanes
	empty, after     float64 // MiB of the broker
	before, with     float64 // p50 of a dispatch, ms
	before99, with99 float64
	page, counts     float64 // ms, p50
	command          float64 // ms, p50 of `berth status` from its start to its end
	worker           float64 // MiB that this process, the worker, has more
}

// wait puts n single jobs on the jobs stream that no machine here can run, many publishes under way at a time, and returns
// when the clerk has put each on its lane.
func (h *berth) wait(ctx context.Context, n int) error {
	js, err := jetstream.New(h.js.Conn(), jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		return err
	}
	defer js.CleanupPublisher()
	for i := range n {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		j := h.job()
		j.Version, j.ID, j.SubmittedAt = job.Version, id.String(), time.Now().UTC()
		j.Project = fmt.Sprint("p", i%backlogs/4)
		j.Requirements = job.Requirements{GPUs: 1 + i%4, GPUMemoryMB: 80 << 10} // the cards have 24 GiB
		body, err := json.Marshal(j)
		if err != nil {
			return err
		}
		m := &nats.Msg{Subject: "berth.jobs." + j.Project + "." + j.User, Header: nats.Header{"Nats-Msg-Id": {j.ID}}, Data: body}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		s, err := h.js.Stream(ctx, queue.StreamLanes)
		if err != nil {
			return err
		}
		if s.CachedInfo().State.Msgs >= uint64(n) {
			return nil
		}
		select { // nothing tells when the clerk is through
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs are on lanes: %w", s.CachedInfo().State.Msgs, n, ctx.Err())
		}
	}
}

// measureBacklog measures with nothing and then with n jobs waiting.
func measureBacklog(tb testing.TB, n, runs int) backlogFigures {
	tb.Helper()
	broker := startBroker(tb, backlogSync)
	h := newBerth(tb, broker, 8, job.Requirements{})
	ctx := tb.Context()
	var f backlogFigures
	f.before, f.before99 = h.dispatched(ctx, runs)
	f.empty = broker.rss()
	_, own := memory(tb, os.Getpid())

	began := time.Now()
	if err := h.wait(ctx, n); err != nil {
		tb.Fatal(err)
	}
	f.perSecond = perSecond(n, time.Since(began))
	f.after = broker.rss()
	f.with, f.with99 = h.dispatched(ctx, runs)
	f.after = max(f.after, broker.rss())
	_, grown := memory(tb, os.Getpid())
	f.worker = grown - own

	f.page = p50(tb, 20, func() error {
		views, _, err := h.queue.List(ctx, queue.Filter{}, queue.Page{Limit: 30})
		if err == nil && len(views) != min(30, n) {
			err = fmt.Errorf("%d jobs on the first page", len(views))
		}
		return err
	})
	f.counts = p50(tb, 20, func() error {
		c, err := h.queue.Counts(ctx)
		if err == nil && c.Queued < uint64(n) {
			err = fmt.Errorf("%d of %d jobs are counted", c.Queued, n)
		}
		return err
	})
	f.command = p50(tb, 10, func() error { return status(ctx, broker.url) })
	return f
}

// dispatched is p50 and p99 of some dispatches one after the other.
func (h *berth) dispatched(ctx context.Context, runs int) (p50, p99 float64) {
	h.tb.Helper()
	var took []time.Duration
	for i := range runs + warmUp {
		time.Sleep(rest)
		if d := h.dispatch(ctx); i >= warmUp {
			took = append(took, d)
		}
	}
	return quantile(took, 0.5), quantile(took, 0.99)
}

// status is what a person types.
func status(ctx context.Context, url string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "status", "--server", url)
	cmd.Env = append(os.Environ(), asBerth+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil && bytes.Count(out, []byte("\n")) < 30 {
		err = fmt.Errorf("a short page:\n%s", out)
	}
	if err != nil {
		return fmt.Errorf("berth status: %w\n%s", err, out)
	}
	return nil
}

func p50(tb testing.TB, n int, do func() error) float64 {
	tb.Helper()
	var took []time.Duration
	for range n {
		began := time.Now()
		if err := do(); err != nil {
			tb.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return quantile(took, 0.5)
}

func (f backlogFigures) String() string {
	return fmt.Sprintf("%.0f jobs/s until on a lane; broker %.0f MiB, %.0f before; dispatch p50 %.2f ms, %.2f before, p99 %.2f ms, %.2f before; "+
		"first page %.1f ms, counts %.1f ms, the command %.0f ms; worker %.0f MiB more",
		f.perSecond, f.after, f.empty, f.with, f.before, f.with99, f.before99, f.page, f.counts, f.command, f.worker)
}

// A million single jobs in the queue.
func BenchmarkMillionQueued(b *testing.B) {
	if os.Getenv("BERTH_LONG") == "" {
		b.Skip("takes four minutes and 2 GB of disk; set BERTH_LONG=1")
	}
	for b.Loop() {
		f := measureBacklog(b, million, backlogRuns)
		b.Log(f)
		target(b, f.after-f.empty, "broker-more-MiB", "at most", 200)
		target(b, f.with/f.before, "dispatch-p50-ratio", "at most", 2)
		target(b, f.page+f.counts, "page+counts-ms", "at most", 200)
		target(b, f.command, "status-ms", "at most", 200)
		b.ReportMetric(f.perSecond, "jobs/s")
	}
}

// The same in small, so that the benchmark does not rot.
func TestBacklog(t *testing.T) {
	t.Parallel()
	f := measureBacklog(t, 1000, 5)
	if f.with <= 0 || f.page <= 0 || f.counts <= 0 || f.command <= 0 {
		t.Errorf("%v", f)
	}
	t.Log(f)
}
