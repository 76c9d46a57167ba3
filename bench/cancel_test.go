package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// listening is a job that notes the moment of its TERM, by the machine's clock, as the first thing it does about it. It
// is ready when the file is there.
const listening = `trap 'echo $EPOCHREALTIME >told.part; mv told.part told; kill $!; exit 0' TERM
touch ready
while :; do sleep 3600 & wait; done`

// From before a cancel is asked for to the TERM in the job: under a second, by the request alone and by the command, which
// is a process of its own and waits for the proof.
func BenchmarkCancel(b *testing.B) {
	broker := broker(b, 0)
	house := newBerth(b, broker, 8, kinds[1].req)
	var request, command, proof []time.Duration
	for b.Loop() {
		for range 20 {
			at, _ := house.cancels(b.Context(), house.askCancel)
			request = append(request, at)
			at, over := house.cancels(b.Context(), func(ctx context.Context, ref queue.Ref) { cancelByCommand(ctx, b, broker.URL(), ref) })
			command, proof = append(command, at), append(proof, over)
		}
	}
	b.ReportMetric(quantile(request, 0.5), "request-p50-ms")
	b.ReportMetric(quantile(request, 1), "request-max-ms")
	b.ReportMetric(quantile(command, 0.5), "command-p50-ms")
	b.ReportMetric(quantile(proof, 0.5), "command-until-proof-p50-ms")
	target(b, quantile(command, 1), "command-max-ms", "at most", 1000)
}

// cancels runs a job, cancels it, and says when it was told and when the cancel returned, counted from before it.
func (h *berth) cancels(ctx context.Context, cancel func(context.Context, queue.Ref)) (told, returned time.Duration) {
	h.tb.Helper()
	j := h.job()
	j.Spec.Workdir, j.Spec.Command = h.tb.TempDir(), job.Command{"bash", "-c", listening}
	r, err := h.queue.Submit(ctx, j)
	if err != nil {
		h.tb.Fatal(err)
	}
	eventually(h.tb, func() bool { _, err := os.Stat(filepath.Join(j.Spec.Workdir, "ready")); return err == nil })
	began := time.Now()
	cancel(ctx, queue.JobRef(r.Number))
	returned = time.Since(began)
	if r := h.result(ctx); r.State != job.Cancelled {
		h.tb.Fatalf("it ended %s: %s", r.State, r.Reason)
	}
	text, err := os.ReadFile(filepath.Join(j.Spec.Workdir, "told"))
	if err != nil {
		h.tb.Fatalf("the job was not told: %v", err)
	}
	seconds, micros, _ := strings.Cut(strings.TrimSpace(string(text)), ".")
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	if err1 != nil || err2 != nil {
		h.tb.Fatalf("the job was told at %q", text)
	}
	return time.Unix(s, us*1000).Sub(began), returned
}

func (h *berth) askCancel(ctx context.Context, ref queue.Ref) {
	if _, err := h.queue.Cancel(ctx, ref, "bench", "measured"); err != nil {
		h.tb.Fatal(err)
	}
}

// cancelByCommand is what a person types.
func cancelByCommand(ctx context.Context, tb testing.TB, url string, ref queue.Ref) {
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe, "cancel", ref.String(), "--server", url)
	cmd.Env = append(os.Environ(), asBerth+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("berth cancel %s: %v: %s", ref, err, out)
	}
}

// A cancel reaches the process, and the command returns when that is proved: the job has its result by then.
func TestCancelWaitsForProof(t *testing.T) {
	t.Parallel()
	broker := broker(t, 0)
	house := newBerth(t, broker, 8, kinds[0].req)
	told, returned := house.cancels(t.Context(), func(ctx context.Context, ref queue.Ref) {
		cancelByCommand(ctx, t, broker.URL(), ref)
		r, err := house.queue.Result(ctx, "bench", ref)
		if err != nil || r.State != job.Cancelled {
			t.Errorf("the command has returned, and the job: %s, %v", r.State, err)
		}
	})
	if told > returned {
		t.Errorf("the job was told %s after the command had returned", told-returned)
	}
	t.Logf("told after %s, proved after %s", told, returned)
}
